"""Importing: a bundle, of which nothing is believed, into the store."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import ValidationError

from sandbox.environments.bundles.format import (
    BLOCK,
    CONTENTS,
    END,
    MAX_CONTENTS,
    TOOL,
    Contents,
    Member,
    copied_whole,
    header,
    padding,
    signature_member,
    wheel_member,
    wheel_place,
)
from sandbox.environments.bundles.signing import SIGNATURE_BYTES, Key, SignatureKind
from sandbox.environments.disk.paths import make_folder, passable, remedy_for
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.store.imported_locks import keep_lock
from sandbox.environments.store.store import BuildingFolder, Store
from sandbox.errors import EnvironmentTampered, EnvironmentUnavailable, SpecError

_READ_ONLY: Final = 0o444
_SIGN_IT: Final = "have it exported with --key by who has that key; without --key it is taken from anybody"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The report of an import."""

    lock: Lock
    digest: str
    size: int
    signature: SignatureKind | None
    """The kind of its signature, right or not."""
    is_signature_checked: bool
    """Whether it was held against a key; then it is right."""
    tool: bytes | None


def import_bundle(store: Store, file: Path, *, signed_with: Key | None = None) -> ImportReport:
    """Take the wheels into the store, and remember what the requirements come to, for who asks without a network.

    Raises `SpecError` for what is no bundle, and `EnvironmentTampered` for one that is not as it was exported, or,
    with a key, not signed with that. Then nothing of it is kept.
    """
    with _opened(file) as bundle, store.new_building_folder() as building:
        head = _read_head(bundle)
        contents = _understood(head)
        signature = _checked_signature(bundle, head, signed_with)
        _check_length(bundle, contents)
        tool = _taken_tool(bundle, contents)
        for package in contents.lock.packages:
            _take_wheel(bundle, building, package, contents.members[wheel_member(package)])
        if bundle.read(len(END) + 1) != END:
            raise _tampered("there is more after its last member")
        _keep(store, building, contents.lock)
        digest, is_checked = hashlib.sha256(head).hexdigest(), signed_with is not None
        return ImportReport(contents.lock, digest, bundle.tell(), signature, is_checked, tool)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """The bundle, if it is a plain file; anything else could be endless, or another one each time it is read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise SpecError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SpecError(f"{file} is not a plain file")
    with open(descriptor, "rb") as bundle:
        yield bundle


def _read_head(bundle: BinaryIO) -> bytes:
    """The bytes of bundle.json."""
    block = bundle.read(BLOCK)
    with suppress(tarfile.TarError, ValueError):
        size = tarfile.TarInfo.frombuf(block, "ascii", "strict").size
        if 0 < size <= MAX_CONTENTS and block == header(CONTENTS, size):
            if len(head := bundle.read(size)) < size:
                raise _tampered(f"{CONTENTS!r} is cut short")
            _skip_padding(bundle, CONTENTS, size)
            return head
    raise SpecError("this is not a bundle", remedy="`sandbox env export` makes one")


def _understood(head: bytes) -> Contents:
    try:
        return Contents.model_validate_json(head)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:200] or CONTENTS
        raise SpecError(f"the bundle's contents cannot be read: {place}: {first['msg'][:300]}") from None


def _checked_signature(bundle: BinaryIO, head: bytes, key: Key | None) -> SignatureKind | None:
    """The kind of its signature; raises if it must be right and is not."""
    start = bundle.tell()
    block = bundle.read(BLOCK)
    headers = {header(signature_member(kind), size): kind for kind, size in SIGNATURE_BYTES.items()}
    kind = headers.get(block)
    if kind is None:
        bundle.seek(start)
        if key is not None:
            raise EnvironmentTampered("the bundle is not signed", remedy=_SIGN_IT)
        return None
    stated = bundle.read(SIGNATURE_BYTES[kind])
    _skip_padding(bundle, signature_member(kind), SIGNATURE_BYTES[kind])
    if key is not None and not (key.kind == kind and key.has_signed(head, stated)):
        raise EnvironmentTampered("the bundle is not signed with this key, or was changed since", remedy=_SIGN_IT)
    return kind


def _check_length(bundle: BinaryIO, contents: Contents) -> None:
    """Before anything is copied: a file that is too short or too long is not what was exported."""
    members = sum(BLOCK + member.size + len(padding(member.size)) for member in contents.members.values())
    expected, found = bundle.tell() + members + len(END), os.fstat(bundle.fileno()).st_size
    if found == expected:
        return
    _refuse_strange_members(bundle, contents)
    raise _tampered(f"it has {found} bytes instead of {expected}")


def _refuse_strange_members(bundle: BinaryIO, contents: Contents) -> None:
    """Name the first member that is not expected, so that people know what is wrong."""
    for name in contents.names:
        member = contents.members[name]
        _expect(bundle, name, member.size)
        bundle.seek(member.size + len(padding(member.size)), os.SEEK_CUR)
    block = bundle.read(BLOCK)
    if len(block) == BLOCK and any(block):
        raise _tampered(f"nothing may follow its last member, and {_described(block)} does")


def _expect(bundle: BinaryIO, name: str, size: int) -> None:
    """Read a header, which can only be this one."""
    block = bundle.read(BLOCK)
    if block != header(name, size):
        raise _tampered(f"{_described(block)} stands where {name!r} should be")


def _described(block: bytes) -> str:
    """Return the kind of member that another tar reader would see."""
    try:
        found = tarfile.TarInfo.frombuf(block, "ascii", "backslashreplace")
    except (tarfile.TarError, ValueError):
        return "something that is no member at all"
    kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.DIRTYPE: "a folder"}
    kinds |= dict.fromkeys(tarfile.REGULAR_TYPES, f"a file of {found.size} bytes")
    return f"{found.name[:200]!r}, {kinds.get(found.type, 'a special member')},"


def _taken_tool(bundle: BinaryIO, contents: Contents) -> bytes | None:
    if contents.tool is None:
        return None
    pieces: list[bytes] = []
    _take(bundle, TOOL, contents.tool, pieces.append)
    return b"".join(pieces)


def _take_wheel(bundle: BinaryIO, building: BuildingFolder, package: LockedPackage, member: Member) -> None:
    place = building.folder / package.sha256
    try:
        with place.open("xb") as file:
            _take(bundle, wheel_member(package), member, file.write)
        place.chmod(_READ_ONLY)
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{package.wheel} cannot be kept in the store: {error.strerror}",
            remedy=remedy_for(error),
        ) from None


def _take(bundle: BinaryIO, name: str, member: Member, write: Callable[[bytes], object]) -> None:
    _expect(bundle, name, member.size)
    if not copied_whole(bundle, write, member):
        raise _tampered(f"the content of {name!r} is not what was exported")
    _skip_padding(bundle, name, member.size)


def _keep(store: Store, building: BuildingFolder, lock: Lock) -> None:
    """Rename the checked wheels to their places, also over damaged ones."""
    for package in lock.packages:
        place = wheel_place(store, package)
        make_folder(place.parent, passable())
        (building.folder / package.sha256).replace(place)
    keep_lock(store, lock)


def _skip_padding(bundle: BinaryIO, name: str, size: int) -> None:
    expected = padding(size)
    if bundle.read(len(expected)) != expected:
        raise _tampered(f"{name!r} is longer than it says")


def _tampered(why: str) -> EnvironmentTampered:
    return EnvironmentTampered(f"the bundle was changed since it was exported: {why}", remedy="export it again")
