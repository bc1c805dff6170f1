"""System call profiles: what each call is answered in a box, as people read it.

`policies/seccomp/<name>.toml` says it (the meaning of its lists stands at the top of `tool.toml`). It is read here, on
the host; each backend makes of it what its kernel or its runtime is told.

A profile may extend another. Whatever it says about a call, in a list or by `[[when]]`, replaces all that the other
said about that call, arguments included; the rest is taken over.

Installed filters add up, and the kernel takes the hardest of their answers. That is why the zygote can live under
`runner` and its children under `tool` on top, but never the other way round.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sandbox import resources
from sandbox.backends.syscall_table import known_names
from sandbox.errors import PolicyError

_WORD: Final = 0xFFFFFFFF
_LONG: Final = 0xFFFFFFFFFFFFFFFF

Answer = Literal["allow", "kill", "EPERM", "EACCES", "EINVAL", "ENOSYS", "EPROTONOSUPPORT", "EAFNOSUPPORT"]

Number = Annotated[int, Field(ge=0, le=_LONG)]


class Sockets(StrEnum):
    """Which sockets a box may make at all; whom they reach is its network namespace's business."""

    UNIX = "unix"
    INTERNET = "internet"


class Condition(StrEnum):
    """A property of a box for which some answers are stricter."""

    UNCOUNTED_MEMORY = "uncounted_memory"
    """No control group counts the memory that no process has mapped."""
    SHOWN_FOLDERS = "shown_folders"
    """The box sees folders of the host, in which a program of the host may listen on a unix socket at any time."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ArgumentTest(_Closed):
    """A test of one argument: its masked value is one of these values, or none of these."""

    argument: int = Field(ge=0, le=5)
    mask: Number = _WORD
    one_of: tuple[Number, ...] = Field(default=(), max_length=32)
    none_of: tuple[Number, ...] = Field(default=(), max_length=32)

    @model_validator(mode="after")
    def _can_hold_and_fail(self) -> Self:
        if bool(self.one_of) == bool(self.none_of):
            raise ValueError("say either `one_of` or `none_of`")
        if any(value & ~self.mask for value in self.one_of + self.none_of):
            raise ValueError("a value has bits outside of the mask, so it could never be met")
        return self


class When(ArgumentTest):
    """An answer that depends on one or two arguments of a call, for all boxes or those of one kind."""

    call: str
    answer: Answer
    also: ArgumentTest | None = None
    """A second test that must hold as well."""
    sockets: Sockets | None = None
    box: Condition | None = None

    def holds_for(self, sockets: Sockets, conditions: Collection[Condition]) -> bool:
        """Return whether the rule is one for boxes of this kind."""
        return self.sockets in (None, sockets) and (self.box is None or self.box in conditions)


class Profile(_Closed):
    """What each system call is answered, with everything inherited filled in."""

    description: str = Field(min_length=1)
    allow: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    when: tuple[When, ...] = ()

    @model_validator(mode="after")
    def _names_are_known_and_said_once(self) -> Self:
        listed = [*self.allow, *self.kill, *self.absent]
        unknown = sorted(self.calls() - known_names())
        if unknown:
            raise ValueError(f"no such system call: {', '.join(unknown)}")
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise ValueError(f"listed more than once: {', '.join(twice)}")
        return self

    def calls(self) -> frozenset[str]:
        """Every call that something is said about."""
        return frozenset((*self.allow, *self.kill, *self.absent, *(rule.call for rule in self.when)))


class _File(Profile):
    extends: str | None = None


def load_profile(name: str, *, folder: Path | None = None) -> Profile:
    """The profile of that name, with what it extends; PolicyError names the file and what is wrong with it.

    The shipped profiles are taken unless another folder is given.
    """
    return _load(folder or resources.find_folder("policies") / "seccomp", name, extended_by=())


def _load(folder: Path, name: str, *, extended_by: tuple[str, ...]) -> Profile:
    if name in extended_by:
        raise PolicyError(f"seccomp profile {name!r} extends itself by way of {' and '.join(extended_by)}")
    file = _read(folder, name)
    said = Profile(**file.model_dump(exclude={"extends"}))
    if file.extends is None:
        return said
    return _merged(_load(folder, file.extends, extended_by=(*extended_by, name)), said)


def _read(folder: Path, name: str) -> _File:
    known = sorted(path.stem for path in folder.glob("*.toml"))
    if name not in known:
        raise PolicyError(f"there is no seccomp profile {name!r}", remedy=f"the profiles are: {', '.join(known)}")
    try:
        return _File.model_validate(tomllib.loads((folder / f"{name}.toml").read_text("utf-8")))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise PolicyError(f"seccomp profile {name!r} is malformed: {faults}") from error
    except ValueError as error:
        raise PolicyError(f"seccomp profile {name!r} is not TOML: {error}") from error


def _merged(base: Profile, said: Profile) -> Profile:
    """What `said` says about a call replaces what `base` says about it."""
    calls = said.calls()
    return Profile(
        description=said.description,
        allow=(*(call for call in base.allow if call not in calls), *said.allow),
        kill=(*(call for call in base.kill if call not in calls), *said.kill),
        absent=(*(call for call in base.absent if call not in calls), *said.absent),
        when=(*(rule for rule in base.when if rule.call not in calls), *said.when),
    )
