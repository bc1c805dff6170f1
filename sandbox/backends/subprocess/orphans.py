"""Whose control groups these are, written in their name, so that a later engine can tell what a dead one left.

    sandbox-<pid>-<start time>-<pid namespace>-<engine>

The number of a process means something in its pid namespace only, and control groups are seen across those. So the end
of an owner is proved in one of two ways. In our own namespace: no process has its number, or the one that has it
started at another time. From the machine's first namespace, which sees every process there is: none is left in the
owner's namespace. Everybody else is believed alive, also whoever wrote a name that does not say its namespace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "sandbox-"
_NAME: Final = re.compile(PREFIX + r"([1-9][0-9]{0,8})-([0-9]{1,20})-([0-9]{1,20})-[0-9a-f]+", re.ASCII)
_START_TIME: Final = 19  # in /proc/<pid>/stat, counted from behind the program's name
_FIRST_NAMESPACE: Final = str(0xEFFFFFFC)
"""The kernel gives the namespaces that a machine starts with the same numbers always."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process with engines, as the names of its groups tell it."""

    pid: int
    started: str
    namespace: str

    @classmethod
    def current(cls) -> Owner:
        """This process; its own entry is found also where /proc is another namespace's."""
        return cls(os.getpid(), _start_time("self") or "0", _namespace("self") or "0")

    @classmethod
    def of(cls, name: str) -> Owner | None:
        """Who gave a group that name; None when it is not as we write it."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2], found[3])

    def name_for(self, engine: int) -> str:
        """What the group is called that all of that engine's are in."""
        return f"{PREFIX}{self.pid}-{self.started}-{self.namespace}-{engine:x}"


def proved_dead(folders: Iterable[Path]) -> Iterator[Path]:
    """The groups whose owner is no more. They are listed before anybody's life is looked for."""
    owned = [(folder, owner) for folder in folders if (owner := Owner.of(folder.name)) is not None]
    here = _namespace("self")
    if not owned or not _sees_its_own_processes():
        return
    is_elsewhere = any(owner.namespace != here for _, owner in owned)
    inhabited = _inhabited_namespaces() if is_elsewhere and here == _FIRST_NAMESPACE else None
    for folder, owner in owned:
        if owner.namespace == here:
            is_dead = _has_ended(owner)
        else:
            is_dead = inhabited is not None and owner.namespace not in inhabited
        if is_dead:
            yield folder


def _has_ended(owner: Owner) -> bool:
    """Of one in our own namespace. A process that is there but may not be looked at may be it."""
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return _start_time(owner.pid) not in (owner.started, None)


def _inhabited_namespaces() -> set[str] | None:
    """Every pid namespace below our own that a process lives in; None where we may not look at all of them."""
    if not os.path.exists("/proc/1"):  # those of other users are hidden from us
        return None
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        if _numbers(process) <= 1:
            continue
        namespace = _namespace(process)
        if namespace is not None:
            found.add(namespace)
        elif os.path.exists(f"/proc/{process}"):
            return None
    return found


def _numbers(process: str) -> int:
    """How many numbers it has: one for each pid namespace from our own down to the one it lives in; 0 when it ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text("latin-1").splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) - 1
    return 0


def _sees_its_own_processes() -> bool:
    """Whether /proc is that of our own pid namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _namespace(process: str) -> str | None:
    """The number of its pid namespace; None where that is not to be seen."""
    try:
        return os.readlink(f"/proc/{process}/ns/pid").removeprefix("pid:[").removesuffix("]")
    except OSError:
        return None


def _start_time(process: int | str) -> str | None:
    """In the kernel's ticks since boot, which no change of the clock moves; None where that is not to be seen."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("latin-1")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[_START_TIME]
