"""The types of one source's own classes and aliases, shared by all readers of its annotations.

Each class is read once, however many parameters use it. Faults in it are reported to each reader, because each reader
reports on another callable. The constraints of a source are bounded (see `pattern_cost`).

A generic class or alias has type variables: `class Page(BaseModel, Generic[T])`, `class Page(Base[T])` and `Pair =
tuple[A, B]`, whether the variables are assigned (`T = TypeVar("T")`) or stand in brackets, which a scope writes in the
same way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sandbox.tools.syntax.scope import Scope, last_name
from sandbox.tools.types.annotation_syntax import arguments
from sandbox.tools.types.pydantic_types import RecursiveType, ValueType
from sandbox.tools.types.validation_budget import MAX_PATTERN_COST, pattern_cost

_MAX_USES: Final = 200
_OF_ONE: Final = 1_000
"""The cost of any constraint for pydantic, in the unit of `pattern_cost`."""

Fault: TypeAlias = tuple[ast.AST, str, str]
"""A part of an annotation that is not understood: the node, what it is, and why."""


@dataclass(slots=True)
class SourceTypes:
    """Types by the names of their classes and aliases, and what the source's constraints may still cost."""

    types: dict[str, ValueType] = field(default_factory=dict)
    cells: dict[str, RecursiveType] = field(default_factory=dict)
    """The types that contain themselves."""
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    nullable: dict[str, bool] = field(default_factory=dict)
    """Whether an alias admits None, by name."""
    _uses: dict[tuple[str, tuple[int, ...]], tuple[str, str, tuple[ValueType, ...]]] = field(default_factory=dict)
    """Generic uses by the identities of their arguments; the arguments are kept, so that identities stay unique."""
    _effort: int = 0
    _seen: set[str] = field(default_factory=set)

    def name_of(self, name: str, said: Mapping[str, ValueType], words: str) -> str:
        """Return the name of a class or an alias with these arguments: the same name for the same types.

        A type whose arguments contain itself has no end, so the number of names is bounded; further uses have no
        arguments.
        """
        use = (name, tuple(id(each) for each in said.values()))
        if not said or (use not in self._uses and len(self._uses) >= _MAX_USES):
            return name
        if use not in self._uses:
            taken = sum(words == known for known, _, _ in self._uses.values())
            # With hyphens, it is no name that the source could give to anything else.
            spelled = f"{name}-{words}-{taken + 1}" if taken else f"{name}-{words}"
            self._uses[use] = words, spelled, tuple(said.values())
        return self._uses[use][1]

    def affords(self, constraints: str, pattern: object) -> bool:
        """Return whether the source can afford these constraints, after all that it has used before."""
        if constraints not in self._seen:
            self._seen.add(constraints)
            self._effort += _OF_ONE + (pattern_cost(pattern) if isinstance(pattern, str) else 0)
        return self._effort <= MAX_PATTERN_COST


_GENERIC: Final = frozenset({"Generic", "Protocol"})
_MAX_NODES: Final = 1000


@dataclass(slots=True)
class AnnotationPlace:
    """Where the annotation stands that is being read."""

    within: str = ""
    """The class whose inner names are looked for first."""
    bound: Mapping[str, ValueType] = field(default_factory=dict)
    """The types of the variables of that class, or of an alias."""

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Enter a class."""
        outer, self.within = self.within, name
        try:
            yield
        finally:
            self.within = outer

    @contextmanager
    def binding(self, said: Mapping[str, ValueType]) -> Iterator[None]:
        """Bind these variables, and no others."""
        outer, self.bound = self.bound, said
        try:
            yield
        finally:
            self.bound = outer


def parameters_of(definition: ast.ClassDef | ast.expr, scope: Scope) -> tuple[str, ...]:
    """Return the names, in the order in which types are given for them."""
    if isinstance(definition, ast.ClassDef):
        generic = [base for base in definition.bases if last_name(base) in _GENERIC]
        return _variables(generic or definition.bases, scope)
    if isinstance(definition, ast.Call):
        said = [each.value for each in definition.keywords if each.arg == "type_params"]
        return _variables(said, scope)
    return _variables([definition], scope) if isinstance(definition, ast.Subscript | ast.BinOp) else ()


def is_variable(definition: object) -> bool:
    """Return whether a name is assigned a type variable."""
    return isinstance(definition, ast.Call) and last_name(definition.func) == "TypeVar"


def bounds_of(variable: ast.Call) -> list[ast.expr]:
    """Return the bounds of a variable, or the types that it is limited to."""
    bound = [each.value for each in variable.keywords if each.arg == "bound"]
    return bound or variable.args[1:]


def given_for(parameters: tuple[str, ...], used: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the parameters with what a use says of them; none where it says too little or too much."""
    given = arguments(used)
    return list(zip(parameters, given, strict=True)) if len(given) == len(parameters) else []


def _variables(nodes: Iterable[ast.expr], scope: Scope) -> tuple[str, ...]:
    """Return the type variables in some expressions, each once, as they are first written."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [*reversed(list(nodes))]
    for _ in range(_MAX_NODES):
        if not waiting:
            break
        node = waiting.pop()
        if isinstance(node, ast.Name) and is_variable(scope.definitions.get(node.id)):
            found[node.id] = None
        waiting += list(ast.iter_child_nodes(node))[::-1]
    return tuple(found)
