"""A lock: exactly which wheels an environment is made of, for one kind of interpreter.

A requirement says what a tool can live with, a lock what it gets: each package once, with its version, the one wheel
that was chosen for the interpreter, and that wheel's SHA-256. Two locks with equal packages for equal interpreters have
the same digest, whatever was asked for: their tools share an environment.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LOCK_FORMAT: Final = 1


class LockedPackage(BaseModel):
    """A package of a lock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=256)]
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9.!+_-]+$", max_length=256)]
    wheel: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._!+-]*\.whl$", max_length=255)]
    """The name of its file."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)] | None = None


def _each_once(packages: tuple[LockedPackage, ...]) -> tuple[LockedPackage, ...]:
    names = [package.name for package in packages]
    if len(set(names)) != len(names):
        raise ValueError("a package is locked twice")
    return tuple(sorted(packages, key=lambda package: package.name))


class Lock(BaseModel):
    """The requirements, and the packages that they resolve to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = LOCK_FORMAT
    requirements: tuple[str, ...]
    interpreter: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=128)]
    """The interpreter's implementation, version, and platform, such as `cp311-linux_x86_64-glibc2.36`."""
    python: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+]*$", max_length=64)] | None = None
    """The very release that it was resolved for, such as `3.11.7`: on another the same may require more, or less."""
    packages: Annotated[tuple[LockedPackage, ...], AfterValidator(_each_once)]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what is installed and for which interpreter."""
        wheels = [[package.name, package.version, package.wheel, package.sha256] for package in self.packages]
        text = json.dumps([self.format, self.interpreter, wheels], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
