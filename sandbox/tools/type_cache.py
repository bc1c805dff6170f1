"""What was read of one source's own classes and aliases, for all who read annotations of it.

Each is read once, however many parameters of however many functions use it. What was not understood of it is told to
each reader that comes by, because each tells it of another callable. And there is a bound on the constraints of a
source, see `pattern_effort`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sandbox.tools.pattern_effort import MOST_EFFORT, effort_of
from sandbox.tools.type_constraints import Cell, ValueType

_MOST_USES: Final = 200
_OF_ONE: Final = 1_000
"""What pydantic needs for any constraint, in the measure of patterns."""

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
    _uses: dict[tuple[str, tuple[int, ...]], tuple[str, str, tuple[ValueType, ...]]] = field(default_factory=dict)
    """Generic classes and aliases by the identities of what stands for their variables, which is kept beside."""
    _effort: int = 0
    _seen: set[str] = field(default_factory=set)

    def name_of(self, name: str, said: Mapping[str, ValueType], words: str) -> str:
        """What a class or an alias is known by with these types for its variables: the same name for the same types.

        Types that are made of themselves go on without end, so there is a bound on them: the rest goes without."""
        use = (name, tuple(id(each) for each in said.values()))
        if not said or (use not in self._uses and len(self._uses) >= _MOST_USES):
            return name
        if use not in self._uses:
            taken = sum(words == known for known, _, _ in self._uses.values())
            # With hyphens, it is no name that the source could give to anything else.
            spelled = f"{name}-{words}-{taken + 1}" if taken else f"{name}-{words}"
            self._uses[use] = words, spelled, tuple(said.values())
        return self._uses[use][1]

    def affords(self, constraints: str, pattern: object) -> bool:
        """Whether these constraints, by what they say, can be looked at beside all that were before."""
        if constraints not in self._seen:
            self._seen.add(constraints)
            self._effort += _OF_ONE + (effort_of(pattern) if isinstance(pattern, str) else 0)
        return self._effort <= MOST_EFFORT
