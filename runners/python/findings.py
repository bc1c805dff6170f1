"""What the tool's process finds of the walls around it, and tells before anything foreign runs in it.

It is measured in the very process that will run the tool, after the last wall is up; where one is missing that the plan
requires, that is told instead, and the process ends. Its guard, which waits for its end, must know which of the two it
was from something that a tool cannot make up: so between them stands a pipe, on which a process that goes on to run a
tool says so, and which it closes before it does.

To put what was found into words takes longer than to find it, and nearly always the words are those of the call before.
So the first one sends both, the zygote remembers them for the children that it forks later, and a child that finds the
very same says the same. One that finds anything else puts it into words itself.
"""

from __future__ import annotations

import os
import time

import call_pipes as pipes
import measure
from walls import WallFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_IN_FORCE, _MISSING = b"1", b"0"


class Found:
    """What there is to be found, and whether it was. Made before the fork, it stands between the two processes."""

    def __init__(self, plan: dict[str, Any], landlock: dict[str, object] | None) -> None:
        self._plan = plan
        self._landlock = landlock
        self._reading, self._writing = os.pipe()

    def tell(self) -> bool:
        """The tool's process tells of its walls and of what it took to get so far; False where a wall is missing."""
        are_in_force, records = self._find()
        os.write(self._writing, _IN_FORCE if are_in_force else _MISSING)
        os.close(self._writing)
        os.close(self._reading)
        pipes.tell(*records)
        return are_in_force

    def tell_if_untold(self) -> bool:
        """The guard asks when the tool's process is gone; of one that died before it could tell, the guard tells, which
        is behind the same walls. False where one is missing."""
        os.close(self._writing)
        word = os.read(self._reading, 1)
        os.close(self._reading)
        if word:
            return word == _IN_FORCE
        are_in_force, records = self._find()
        pipes.tell(*records)
        return are_in_force

    def _find(self) -> tuple[bool, list[bytes]]:
        """Whether all that is required is in force, and what is told."""
        said = measure.read(self._plan, self._landlock)
        known = self._plan.get("known")
        if known and known[0] == said:
            return True, [known[1], _spent()]
        try:
            record = describe(self._plan, said, self._landlock)
        except WallFault as fault:
            return False, [describe_fault(fault)]
        is_new = known is None and "label" not in self._plan
        return True, [record, pipes.as_record({"cpu_s": time.process_time(), "said": said}) if is_new else _spent()]


def remember(plan: dict[str, Any], said: list[Any] | None, record: bytes | None) -> None:
    """The zygote learns the words for what a child found, until a call is to have other walls."""
    if said and record:
        plan["known"] = (said, record)


def describe(plan: dict[str, Any], said: list[Any], landlock: dict[str, object] | None) -> bytes:
    """The record of what was measured; `WallFault` for a wall that is required and not found."""
    found = measure.interpret(said, landlock)
    missing = measure.missing(found, plan["required"])
    if missing:
        raise WallFault(missing[0], "asked for, but not in force when measured")
    if "label" in plan:
        found["egress"] = plan["label"]
    return pipes.as_record({"walls": found})


def describe_fault(fault: WallFault) -> bytes:
    """The record of a wall that is not there."""
    return pipes.as_record({"fault": {"layer": fault.layer, "reason": fault.reason}})


def rehearse(plan: dict[str, Any]) -> None:
    """Work it out in the zygote, for what that takes to be made by then."""
    bare = dict(plan, workplace=None, required=())
    describe(bare, measure.read(bare, None), None)
    _spent()


def _spent() -> bytes:
    return b'{"cpu_s": %f}' % time.process_time()
