"""What was read of one source's own classes and aliases, for all who read annotations of it.

Each is read once, however many parameters of however many functions use it. What was not understood of it is told to
each reader that comes by, because each tells it of another callable. And there is a bound on the constraints of a
source: pydantic makes a machine of each pattern, which takes the longer the more often its parts repeat.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sandbox.tools.value_marks import Cell, ValueType

MOST_EFFORT: Final = 1_000_000
_OF_ONE: Final = 1_000
_AT_MOST: Final = 250_000
_UNICODE: Final = 1_000
_PIECE = re.compile(r"\\[wWdDsSpP]|\\.|\[\^?\]?(?:[^\\\]]|\\.)*\]|\{(\d{1,6})(?:,(\d{0,6}))?\}|.", re.DOTALL)

Fault: TypeAlias = tuple[ast.AST, str, str]
"""A part of an annotation that is not understood: the node, what it is, and why."""


@dataclass(slots=True)
class Declared:
    """Types by the names of their classes and aliases, and what the source's constraints may still cost."""

    types: dict[str, ValueType] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)
    """The types that contain themselves."""
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    nullable: dict[str, bool] = field(default_factory=dict)
    """Which aliases admit None."""
    _effort: int = 0
    _seen: set[str] = field(default_factory=set)

    def affords(self, constraints: str, pattern: object) -> bool:
        """Whether these constraints, by what they say, can be looked at beside all that were before."""
        if constraints not in self._seen:
            self._seen.add(constraints)
            self._effort += effort_of(pattern) if isinstance(pattern, str) else _OF_ONE
        return self._effort <= MOST_EFFORT


def effort_of(pattern: str) -> int:
    """About how many states a regular expression has; classes such as `\\w` have a thousand."""
    sums, last = [0], 0
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if text == "(":
            sums.append(0)
            last = 0
        elif text == ")":
            last = sums.pop() if len(sums) > 1 else 0
            sums[-1] += last
        elif piece[1] is not None:
            repeated = last * max(int(piece[1]), int(piece[2] or 0), 1)
            sums[-1] += repeated - last
            last = repeated
        else:
            last = _UNICODE if _is_of_unicode(text) else 1
            sums[-1] += last
    return _OF_ONE + min(sum(sums), _AT_MOST)


def _is_of_unicode(piece: str) -> bool:
    return piece.startswith("[^") or any(
        escape in piece for escape in ("\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\p")
    )
