"""Wheels that were built here from source: taken out of the folder of a box that is gone, trusted in nothing.

The box ran what strangers wrote, so its folder may hold anything. Exactly one plain file is taken, whose name must be
that of a wheel of the package and version that were asked for, for the interpreter that it was built for. The engine
copies it, so that nothing the box had open is the store's file, and judges its content when it unpacks it, like any
wheel.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from sandbox.environments.disk.paths import CLOSED, is_full, make_folder, passable, remedy_for
from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.lock import LockedPackage
from sandbox.errors import BuildFailed, StoreUnwritable

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE: Final = 1 << 20
_PASSED_OVER: Final = (".gitignore",)


def take_wheel(folder: Path, *, name: str, version: str, interpreter: HostInterpreter, wheels: Path) -> LockedPackage:
    """The one wheel in `folder`, from now on in the store's `wheels`; `BuildFailed` when it is not what was asked."""
    try:
        descriptor = os.open(folder, _FOLDER)
    except OSError as error:
        raise BuildFailed(f"building {name} {version} left nothing: {error.strerror}") from None
    try:
        found = [entry for entry in os.listdir(descriptor) if entry not in _PASSED_OVER]
        if len(found) != 1:
            raise BuildFailed(f"building {name} {version} left {len(found)} files where one wheel was expected")
        _refuse_another(found[0], name=name, version=version, interpreter=interpreter)
        return _copy(descriptor, found[0], name=name, version=version, wheels=wheels)
    except OSError as error:
        message = f"the wheel that was built of {name} {version} cannot be kept: {error}"
        raise (StoreUnwritable(message, remedy=remedy_for(error)) if is_full(error) else BuildFailed(message)) from None
    finally:
        os.close(descriptor)


def _refuse_another(file: str, *, name: str, version: str, interpreter: HostInterpreter) -> None:
    try:
        stated, stated_version, _, tags = parse_wheel_filename(file)
        is_asked = stated == canonicalize_name(name) and stated_version == Version(version)
    except (InvalidWheelFilename, InvalidVersion):
        is_asked, tags = False, frozenset()
    if not is_asked:
        raise BuildFailed(f"building {name} {version} made {file[:200]!r}, which is something else")
    if not {str(tag) for tag in tags} & set(interpreter.wheel_tags):
        raise BuildFailed(f"building {name} {version} made {file[:200]!r}, which does not fit {interpreter.tag}")


def _copy(folder: int, file: str, *, name: str, version: str, wheels: Path) -> LockedPackage:
    partial = wheels / ".partial" / secrets.token_hex(16)
    make_folder(partial.parent, CLOSED)
    with _opened(folder, file, who=f"{name} {version}") as source:
        try:
            sha256, size = _copied(source, partial)
            place = wheels / sha256 / file
            make_folder(place.parent, passable())
            partial.rename(place)
        finally:
            partial.unlink(missing_ok=True)
    return LockedPackage(name=canonicalize_name(name), version=version, wheel=file, sha256=sha256, size=size)


@contextmanager
def _opened(folder: int, file: str, *, who: str) -> Iterator[BinaryIO]:
    """The file, if it is one."""
    descriptor = os.open(file, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BuildFailed(f"building {who} left something that is no file")
    with open(descriptor, "rb") as source:
        yield source


def _copied(source: BinaryIO, place: Path) -> tuple[str, int]:
    """Copy the file, and return its SHA-256 and its size."""
    digest = hashlib.sha256()
    with place.open("xb") as target:
        while piece := source.read(_PIECE):
            digest.update(piece)
            target.write(piece)
        os.fchmod(target.fileno(), 0o444)
        return digest.hexdigest(), target.tell()
