"""Bundles: one file with everything that an environment is built from, for machines without a network.

    bundle.json          `Contents`: the lock, and each member below with its size and SHA-256
    bundle.json.<kind>   if it is signed: what signs bundle.json, in hexadecimal (see signing.py)
    tool.py              if a tool goes along
    wheels/<sha256>      each wheel of the lock, in its order

The file is a tar archive, so that anybody can look inside, but an engine does not read it as one. Equal contents make
equal bytes: nothing in a bundle depends on when, where or by whom it was written. So once bundle.json is read, every
further byte is known beforehand, or has a digest that is, and whatever differs is refused. No path, link or mode that
stands in the file is ever acted on, and nothing is kept before all of it was checked.

Digests tell what was damaged, not who made it: who changes a wheel can change bundle.json too. Against that, there is
a signature; or the digest of bundle.json, compared on another way.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sandbox.environments.bundles.signing import SignatureKind
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.store.store import Store

CONTENTS: Final = "bundle.json"
TOOL: Final = "tool.py"
BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)
MAX_CONTENTS: Final = 16 << 20
_MAX_TOOL: Final = 6 << 20
_MAX_WHEEL: Final = (8 << 30) - 1
"""The largest size that fits a plain header."""
_READ_AT_ONCE: Final = 1 << 20


class Member(BaseModel):
    """A file of a bundle."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0, le=_MAX_WHEEL)]


class Contents(BaseModel):
    """The content of bundle.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    lock: Lock
    members: dict[str, Member]

    @model_validator(mode="after")
    def _is_of_the_lock(self) -> Self:
        """A bundle has exactly the wheels of its lock; so their names and digests are none of its own to say."""
        wheels = {wheel_member(package): package.sha256 for package in self.lock.packages}
        stated = {name: member.sha256 for name, member in self.members.items() if name != TOOL}
        if stated != wheels or len(wheels) != len(self.lock.packages):
            raise ValueError("the members are not the wheels of the lock")
        if self.tool is not None and self.tool.size > _MAX_TOOL:
            raise ValueError("the tool is too large to be one")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The members, in the order that they are written in."""
        return (*([TOOL] if self.tool else []), *map(wheel_member, self.lock.packages))

    @property
    def tool(self) -> Member | None:
        """The tool, if one goes along."""
        return self.members.get(TOOL)

    def to_bytes(self) -> bytes:
        """As it is written."""
        return f"{self.model_dump_json(indent=1)}\n".encode()


def signature_member(kind: SignatureKind) -> str:
    """The name that a signature of that kind has in a bundle."""
    return f"{CONTENTS}.{kind}"


def wheel_member(package: LockedPackage) -> str:
    """The name that a wheel has in a bundle: long file names would need more than a plain header."""
    return f"wheels/{package.sha256}"


def wheel_place(store: Store, package: LockedPackage) -> Path:
    """Where the store keeps it."""
    return store.wheels / package.sha256 / package.wheel


def copied_whole(source: BinaryIO, write: Callable[[bytes], object], member: Member) -> bool:
    """Copy that many bytes, and say whether they were there and are the right ones."""
    digest, left = hashlib.sha256(), member.size
    while left and (piece := source.read(min(left, _READ_AT_ONCE))):
        digest.update(piece)
        write(piece)
        left -= len(piece)
    return not left and digest.hexdigest() == member.sha256


def header(name: str, size: int) -> bytes:
    """The one header that a member of that name and size can have."""
    about = tarfile.TarInfo(name)
    about.size = size
    return about.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def padding(size: int) -> bytes:
    """Return the padding after a member of that size."""
    return bytes(-size % BLOCK)
