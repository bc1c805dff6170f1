"""The port through which an environment's building borrows a box; the engine knows how boxes are opened.

A job is one call of a program of ours (a file of `runners/builder`) with all the walls and limits that any call has:
what it reads and unpacks was written by strangers. Only its folder comes out, and the engine trusts nothing in
that folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pydantic import JsonValue

from sandbox.environments.model import Environment
from sandbox.errors import EnvironmentUnavailable
from sandbox.policy import Policy

BUILD: Final = "/build"
"""Where a job sees its folder."""


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run in a box."""

    program: str
    """The name of its file."""
    entry: str
    """The function to call."""
    arguments: Mapping[str, JsonValue]
    policy: Policy
    interpreter: Environment
    folder: Path | None = None
    """The folder that it may write to, at `BUILD`."""
    disk: int | None = None
    """How many bytes it may leave there."""
    readable: Mapping[str, Path] = field(default_factory=dict)
    """The other places that it sees: a place in the box, and the path that is shown there."""
    gateway: Path | None = None
    tenant: str = ""
    on_line: Callable[[str], None] | None = None
    """Called with each line that it prints, as it comes."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How it went: its value, or the problem."""

    value: JsonValue = None
    problem: str | None = None
    is_late: bool = False
    """Whether the problem is that its time was up."""
    is_lost: bool = False
    """Whether the problem is that its box was: that says nothing of what it was to do."""
    limit: str = ""
    """The limit that a part of it ran into while the job itself went on, and the field that sets it."""
    said: str = ""
    """The end of what it wrote to stderr."""


class JobRunner(Protocol):
    """A part of the engine that opens boxes."""

    async def run(self, job: Job) -> JobEnd:
        """Run it to its end; the box is gone, and nothing runs in it any more, when this returns."""


def refuse_lost(end: JobEnd) -> None:
    """Raise if its box was lost. That is no failure of the packages, and is not remembered as one."""
    if end.is_lost:
        raise EnvironmentUnavailable(
            f"the box that an environment was made in was lost: {end.problem}",
            remedy="try again; if it is lost again, find out what ends processes on this machine",
        )


def open_folder(folder: Path) -> Path:
    """Make a folder that a job's box can write to, whatever user it runs as; the folder above it keeps other users
    out."""
    folder.mkdir()
    folder.chmod(0o777)
    return folder
