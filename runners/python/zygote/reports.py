"""What the zygote reports to the engine about calls and children, as messages."""

from __future__ import annotations

from box import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from zygote.child import Child
    from zygote.send_buffer import Outlet

_MAX_REASON = 2000


class Report:
    """One method for each message."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def started(self, child: Child) -> None:
        """A child has a call, and these are its walls, if they are known."""
        message = frames.message("started", id=child.call, slot=child.slot, ahead=child.ahead)
        self._outlet.say(message, urgent=not child.ahead)
        if child.walls is not None:
            self.walls(child)

    def walls(self, child: Child) -> None:
        """The walls of a call, as its guard verified them."""
        if child.call is not None and child.walls is not None:
            self._outlet.say(frames.chunk(child.call, frames.WALLS, child.walls), urgent=False)

    def ready(self, child: Child) -> None:
        """A child on a line can be called."""
        walls = (child.walls or b"").decode("ascii", "replace")
        self._outlet.say(frames.message("ready", line=child.line, slot=child.slot, cpu_before=child.spent, walls=walls))

    def surplus(self, child: Child, *, wanted: int) -> None:
        """A child on a line is not needed any more; `wanted` are."""
        self._outlet.say(frames.message("surplus", line=child.line, wanted=wanted))

    def ended(self, id: int, fields: dict[str, Any], *, killed_by: str | None, seen: float | None = None) -> None:
        """A call is over."""
        self._outlet.say(frames.message("ended", id=id, killed_by=killed_by, seen=seen, **fields))

    def call_ended(self, child: Child, fields: dict[str, Any]) -> None:
        """The call of that child is over."""
        if child.call is not None:
            seen = child.seen.get(child.killed_by or "")
            self.ended(child.call, fields, killed_by=child.killed_by, seen=seen)

    def gone(self, line: int, fields: dict[str, Any]) -> None:
        """The child on that line is dead."""
        self._outlet.say(frames.message("gone", line=line, killed_by=None, **fields))

    def unfit(self, reason: str) -> None:
        """Calls import for themselves from now on."""
        self._outlet.say(frames.message("unfit", reason=reason[:_MAX_REASON]))
