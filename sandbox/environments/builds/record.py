"""RECORD: what a wheel and an installed package say that they consist of, and how the two are compared.

There are two of them. The one *in the wheel* is covered by the lock's SHA-256 of the wheel, so it can be believed. The
one *in the tree* was written by the installer, which ran in a box that read strangers' bytes: it says only what the box
claims. So a tree is first held against its own RECORD, and then that against the wheel's, where the wheel is at hand.

uv adds files of its own about when and from where it installed. Its files differ from one build to the next and say
nothing about the package; the engine drops them, so that equal wheels make equal trees.

uv unpacks into one folder, and in an environment scripts and data lie elsewhere than modules. When all is compared, a
tree's RECORD is made to name each file as it lies from where modules are, as any installer's does.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.errors import BuildFailed

MAX_BYTES: Final = 64 << 20
_BESIDE_LIB: Final = "../../../"
"""From `lib/pythonX.Y/site-packages`."""
# The format of wheels allows SHA-256 or better.
_ALGORITHMS: Final = ("sha256", "sha384", "sha512")
_INSTALLERS: Final = frozenset({"INSTALLER"})
# About one installation, not about the package.
PASSING: Final = frozenset({"REQUESTED", "direct_url.json", "uv_cache.json"})
# A RECORD cannot list its own digest, nor that of what signs it.
UNLISTED: Final = frozenset({"RECORD", "RECORD.jws", "RECORD.p7s"})


@dataclass(frozen=True, slots=True)
class Listed:
    """A row: digest in hexadecimal and size, as far as they are given."""

    digest: str | None
    size: int | None
    algorithm: str = "sha256"


def read_record(text: str, *, who: str) -> dict[str, Listed]:
    """The rows of a RECORD by path; `BuildFailed` names the first that cannot be."""
    rows: dict[str, Listed] = {}
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            if row:
                path, listed = _read_row(row)
                if rows.setdefault(path, listed) != listed:
                    raise ValueError(f"lists {path!r} twice, with different digests")
    except (ValueError, csv.Error) as error:
        raise BuildFailed(f"the RECORD of {who} {str(error)[:300]}", remedy="pin another version of it") from error
    return rows


def _read_row(row: list[str]) -> tuple[str, Listed]:
    if len(row) != 3:
        raise ValueError(f"has a row of {len(row)} columns instead of 3")
    path, digest, size = row
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"lists {path!r}, which is not inside the package")
    length = int(size) if size else None
    if not digest:
        return path, Listed(None, length)
    algorithm, _, value = digest.partition("=")
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"has no SHA-256 for {path!r}, nor a better digest")
    return path, Listed(_hexadecimal(path, value), length, algorithm)


def _hexadecimal(path: str, value: str) -> str:
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True).hex()
    except binascii.Error as error:
        raise ValueError(f"has a malformed digest for {path!r}") from error


def without_passing_files(text: str, dist_info: str) -> str:
    """The same RECORD, not listing what the engine drops."""
    passing = {f"{dist_info}/{name}" for name in PASSING}
    kept = io.StringIO(newline="")
    rows = csv.writer(kept, lineterminator="\n")
    rows.writerows(sorted(row for row in csv.reader(io.StringIO(text, newline="")) if row and row[0] not in passing))
    return kept.getvalue()


def as_installed(text: str, outside: Collection[str]) -> str:
    """The same RECORD, naming what belongs next to `lib` from where modules are."""
    placed = io.StringIO(newline="")
    rows = csv.writer(placed, lineterminator="\n")
    for path, *rest in csv.reader(io.StringIO(text, newline="")):
        rows.writerow([f"{_BESIDE_LIB}{path}" if path in outside else path, *rest])
    return placed.getvalue()


@dataclass(frozen=True, slots=True)
class WheelContents:
    """The files that a wheel puts into a tree."""

    files: dict[str, Listed]
    """By the path they have in the tree; scripts are rewritten by the installer and are not here."""
    scripts: frozenset[str]
    prefix_files: frozenset[str]
    """Return those of `files` that belong next to `lib` and `bin`, not among the modules."""


def wheel_contents(archive: Path, *, who: str) -> WheelContents:
    """Read the wheel's own RECORD; only for a wheel whose SHA-256 was checked."""
    rows = read_record(_record_of(archive, who=who), who=f"the wheel of {who}")
    contents = WheelContents({}, scripts := frozenset(_scripts(rows)), frozenset(_prefix_paths(rows)))
    for path, listed in rows.items():
        target = _path_in_tree(path)
        if target is not None and target not in scripts:
            contents.files[target] = listed
    return contents


def _record_of(archive: Path, *, who: str) -> str:
    try:
        with zipfile.ZipFile(archive) as wheel:
            (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD") and name.count("/") == 1]
            if wheel.getinfo(name).file_size > MAX_BYTES:
                raise ValueError("its RECORD is too long")
            return wheel.read(name).decode()
    except (ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BuildFailed(f"the wheel of {who} cannot be read: {error}", remedy="pin another version of it") from error


def _data_part(path: str) -> tuple[str, str] | None:
    """The scheme and the rest of a path such as `name-1.0.data/scripts/tool`."""
    top, _, below = path.partition("/")
    scheme, _, rest = below.partition("/")
    return (scheme, rest) if top.endswith(".data") and rest else None


def _path_in_tree(path: str) -> str | None:
    part = _data_part(path)
    if part is None:
        return path
    scheme, rest = part
    return {"purelib": rest, "platlib": rest, "scripts": f"bin/{rest}", "data": rest}.get(scheme)


def _scripts(rows: dict[str, Listed]) -> list[str]:
    parts = [part for path in rows if (part := _data_part(path))]
    return [f"bin/{rest}" for scheme, rest in parts if scheme == "scripts"]


def _prefix_paths(rows: dict[str, Listed]) -> list[str]:
    parts = [part for path in rows if (part := _data_part(path))]
    return [rest for scheme, rest in parts if scheme == "data"]


def check_against_wheel(claimed: dict[str, Listed], contents: WheelContents, *, dist_info: str, who: str) -> None:
    """Refuse a tree that lacks, alters, or adds to what is in its wheel."""
    for path, listed in contents.files.items():
        if path.startswith(f"{dist_info}/") and path.rpartition("/")[2] in UNLISTED | PASSING | _INSTALLERS:
            continue
        if claimed.get(path) != listed and not path.endswith(".pyc"):
            raise BuildFailed(f"{path!r} of {who} is not what its wheel holds", remedy="build the environment again")
    for path in claimed:
        if path not in contents.files and not _is_made_by_installer(path, dist_info):
            raise BuildFailed(f"{path!r} of {who} is not in its wheel", remedy="build the environment again")


def files_outside(claimed: Iterable[str], contents: WheelContents) -> frozenset[str]:
    """Return the files that belong next to `lib`: scripts, which the installer rewrites or makes, and data of the
    wheel, but no module of a package called `bin`."""
    scripts = (path for path in claimed if path.startswith("bin/") and path not in contents.files)
    return contents.prefix_files.union(scripts)


def _is_made_by_installer(path: str, dist_info: str) -> bool:
    """Scripts are made from entry points; headers are put where the installer thinks best."""
    if path.startswith(("bin/", "include/")):
        return True
    return path in {f"{dist_info}/{name}" for name in PASSING | _INSTALLERS | UNLISTED}
