"""Real wheels, made here, and really unpacked by uv."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from uv import find_uv_bin

from sandbox.environments.builds.ingest import adopt_tree
from sandbox.environments.builds.linking import link_tree
from sandbox.environments.disk.file_inventory import list_digest, take_inventory
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.store.store import Store, StoredEnvironment
from sandbox.environments.store.tree_report import TreeReport
from sandbox.environments.store.trees import publish_tree

SITE: Final = "lib/python3.11/site-packages"
_EPOCH: Final = (2020, 1, 1, 0, 0, 0)
INTERPRETER: Final = "cp311-linux_x86_64-glibc2.36"
ORDINARY: Final = {
    "gadget/__init__.py": b"SIZE = 1\n",
    "gadget/parts/__init__.py": b"",
    "gadget/parts/wheel.py": b"def turn():\n    return 'round'\n",
    "gadget/fast.cpython-311-x86_64-linux-gnu.so": b"\x7fELF, as far as anybody here looks",
    "gadget/data.bin": bytes(range(256)) * 64,
    "single.py": b"x = 1\n",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A wheel, and its entry in a lock."""

    path: Path
    locked: LockedPackage


def digest_row(path: str, data: bytes, *, algorithm: str = "sha256") -> str:
    """Return the row of a file in a RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
    return f"{path},{algorithm}={digest},{len(data)}"


def make_wheel(
    folder: Path,
    *,
    name: str = "gadget",
    version: str = "1.0",
    files: Mapping[str, bytes] | None = None,
    entry_points: str = "",
    programs: Collection[str] = (),
    algorithm: str = "sha256",
) -> Made:
    """Make a wheel with these files, as any build tool would; `programs` are the executable ones."""
    dist_info = f"{name}-{version}.dist-info"
    held = dict(ORDINARY if files is None else files)
    held[f"{dist_info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    held[f"{dist_info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if entry_points:
        held[f"{dist_info}/entry_points.txt"] = entry_points.encode()
    rows = [digest_row(path, data, algorithm=algorithm) for path, data in held.items()]
    held[f"{dist_info}/RECORD"] = "\n".join([*rows, f"{dist_info}/RECORD,,", ""]).encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, data in held.items():
            entry = zipfile.ZipInfo(inside, _EPOCH)
            entry.external_attr = (0o755 if inside in programs else 0o644) << 16
            wheel.writestr(entry, data)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Made(path, LockedPackage(name=canonicalize_name(name), version=version, wheel=path.name, sha256=digest))


def unpack(wheel: Path, target: Path) -> None:
    """Unpack a wheel as the box does."""
    options = ["--no-config", "--offline", "--no-index", "--no-deps", "--no-cache", "--link-mode", "copy", "--quiet"]
    command = [find_uv_bin(), "pip", "install", *options, "--python", sys.executable, "--compile-bytecode"]
    answer = subprocess.run([*command, "--target", target, wheel], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def tree_in(store: Store, made: Made, key: str) -> TreeReport:
    """Return the wheel's tree, unpacked, verified, and published under that key."""
    with store.new_building_folder() as building:
        unpack(made.path, building.folder / "unpacked")
        report = adopt_tree(building.folder / "unpacked", wheel=made.locked, archive=made.path)
        return publish_tree(store, report, key)


def key_of(number: int) -> str:
    """Return some key."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def manifest_of(key: str, /, **changes: object) -> Manifest:
    """Return a manifest of an empty environment, with these changes."""
    plain = {
        "key": key,
        "lock": Lock(requirements=(), interpreter=INTERPRETER, packages=()),
        "interpreter": {"version": "3.11.7"},
        "created": datetime(2026, 1, 2, tzinfo=UTC),
        "builder": "of a test",
        "files": list_digest(()),
        "trees": (),
        "modules": (),
        "pth": False,
        "bytes_total": 0,
        "bytes_own": 0,
    }
    return Manifest.model_validate({**plain, **changes})


def publish_environment(
    store: Store,
    key: str,
    trees: Mapping[str, TreeReport] | None = None,
    *,
    packages: tuple[LockedPackage, ...] = (),
    copy: bool = False,
    before_publishing: Callable[[], None] = lambda: None,
) -> StoredEnvironment:
    """Build an environment of those trees, by their keys, as the builder does."""
    with store.new_building_folder() as building:
        content = building.folder / "environment"
        (content / "bin").mkdir(parents=True)
        (content / "pyvenv.cfg").write_text("home = /usr/bin\n")
        os.symlink("/usr/bin/python3", content / "bin" / "python")
        linked = [
            file
            for tree in (trees or {}).values()
            for file in link_tree(tree, content / SITE, content, copy=copy).files
        ]
        stock = take_inventory(content, known=linked)
        manifest = manifest_of(
            key,
            lock=Lock(requirements=(), interpreter=INTERPRETER, packages=packages),
            files=list_digest(stock.files),
            trees=tuple(trees or {}),
            bytes_total=stock.bytes_total,
            bytes_own=stock.bytes_own,
        )
        before_publishing()
        return store.publish(building, manifest, files=stock.files)


def copy_of(unpacked: Path, target: Path) -> Path:
    """Return the folder that uv left, for a test to spoil."""
    shutil.copytree(unpacked, target)
    return target
