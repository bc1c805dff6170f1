"""System call profiles: the kernel's answer to each call in a box, in the form that people read.

The profiles are the files `policies/seccomp/<name>.toml`; the top of `tool.toml` explains their lists. The engine reads
a profile on the host, and each backend translates it for its kernel or its runtime.

A profile may extend another one. A rule about a call, in a list or by `[[when]]`, replaces all rules of the extended
profile about that call, arguments included; all other rules are inherited.

Installed filters add up, and the kernel takes the strictest of their answers. For that reason the zygote can live under
`runner` and its children under `tool` on top, but never the other way round.

The numbers of the calls lie next to the profiles, in `policies/seccomp/syscalls.tsv`: one line for each name, one
column for each machine, `-` if a machine has no such call. The numbers come from the kernel's headers and never change;
new calls are added at the end, with the same number on all machines (since 424).
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sandbox import resources
from sandbox.errors import PolicyError

Machine = Literal["x86_64", "aarch64"]

MACHINES: Final[tuple[Machine, ...]] = get_args(Machine)
_WORD: Final = 0xFFFFFFFF
_LONG: Final = 0xFFFFFFFFFFFFFFFF

Answer = Literal["allow", "kill", "EPERM", "EACCES", "EINVAL", "ENOSYS", "EPROTONOSUPPORT", "EAFNOSUPPORT"]

Number = Annotated[int, Field(ge=0, le=_LONG)]


@lru_cache(maxsize=1)
def load_table() -> dict[Machine, dict[str, int]]:
    """Return the calls by name for each machine; a name is missing if the machine has no such call."""
    lines = (resources.find_folder("policies") / "seccomp" / "syscalls.tsv").read_text("ascii").splitlines()
    columns = lines[0].split("\t")[1:]
    table: dict[Machine, dict[str, int]] = {machine: {} for machine in MACHINES}
    for line in lines[1:]:
        name, *numbers = line.split("\t")
        for machine in MACHINES:
            number = numbers[columns.index(machine)]
            if number != "-":
                table[machine][name] = int(number)
    return table


def known_names() -> frozenset[str]:
    """Return the names of all system calls of at least one machine."""
    return frozenset(name for numbers in load_table().values() for name in numbers)


class Sockets(StrEnum):
    """The kinds of sockets that a box may make; the network namespace decides whom they reach."""

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
    """A test of one argument: the masked value is among these values, or is not."""

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
    """The answer to each system call, inherited rules included."""

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
        """Return the calls that the profile has a rule about."""
        return frozenset((*self.allow, *self.kill, *self.absent, *(rule.call for rule in self.when)))


class _File(Profile):
    extends: str | None = None


def load_profile(name: str, *, folder: Path | None = None) -> Profile:
    """Return the profile of that name, inherited rules included; raise `PolicyError` if it is missing or malformed.

    Without `folder`, the profiles are the shipped ones.
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
    calls = said.calls()
    return Profile(
        description=said.description,
        allow=(*(call for call in base.allow if call not in calls), *said.allow),
        kill=(*(call for call in base.kill if call not in calls), *said.kill),
        absent=(*(call for call in base.absent if call not in calls), *said.absent),
        when=(*(rule for rule in base.when if rule.call not in calls), *said.when),
    )
