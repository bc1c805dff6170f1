"""Lines: pipes that the engine made for one call each, so that its bytes do not lead through the zygote.

A line is four far ends: where the tool reads its request, and where it writes stdout, stderr and its value. The near
ends never leave the engine, which shares their open files with nobody. The zygote holds a line from the message that
hands it over until a child is forked ahead for it, and keeps nothing of it then. From `ready` on the child is the
engine's to call, by writing to the line, or to dismiss, by hanging up. The zygote keeps what is the parent's: it
watches, kills, reaps, and reports the end.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zygote.child import Child

FAR_ENDS = 4


class Line:
    """One line that no child has yet: its number, and its far ends in the order of `call_pipes.arrange`."""

    __slots__ = ("ends", "id")

    def __init__(self, id: int, ends: list[int]) -> None:
        self.id = id
        self.ends = ends


class Lines:
    """The lines of one box: those in stock, and the children on the others that have no call yet."""

    def __init__(self, *, are_used: bool) -> None:
        self.are_used = are_used
        self._stock: list[Line] = []
        self._children: dict[int, Child] = {}

    @property
    def has_room(self) -> bool:
        """Whether a child may be forked ahead now."""
        return bool(self._stock) or not self.are_used

    @property
    def children(self) -> list[Child]:
        """Those that have no call yet."""
        return list(self._children.values())

    def add(self, line: Line) -> None:
        """The engine hands over one more."""
        self._stock.append(line)

    def take(self) -> Line | None:
        """A line for a new child; only while there is room."""
        return self._stock.pop(0) if self.are_used else None

    def put_on(self, child: Child) -> None:
        """A child was forked for its line, if it has one."""
        if child.line is not None:
            self._children[child.line] = child

    def take_off(self, line: int) -> Child | None:
        """The child on that line gets its call, or is gone; None when it went before."""
        return self._children.pop(line, None)
