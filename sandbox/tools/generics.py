"""Which names of a generic class or alias stand for types that whoever uses it says, and what they stand for where.

`class Page(BaseModel, Generic[T])`, `class Page(Base[T])` and `Pair = tuple[A, B]` have them, whether the variables are
assigned (`T = TypeVar("T")`) or stand in brackets, which a scope writes in the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sandbox.tools.annotation_syntax import arguments
from sandbox.tools.names_in_source import last_name
from sandbox.tools.scope import Scope
from sandbox.tools.type_constraints import ValueType

_GENERIC: Final = frozenset({"Generic", "Protocol"})
_MOST_NODES: Final = 1000


@dataclass(slots=True)
class Place:
    """Where the annotation stands that is being read."""

    within: str = ""
    """The class whose inner names are looked for first."""
    bound: Mapping[str, ValueType] = field(default_factory=dict)
    """What the variables of that class, or of an alias, stand for."""

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """In this class."""
        outer, self.within = self.within, name
        try:
            yield
        finally:
            self.within = outer

    @contextmanager
    def binding(self, said: Mapping[str, ValueType]) -> Iterator[None]:
        """Where these variables stand for something, and no others."""
        outer, self.bound = self.bound, said
        try:
            yield
        finally:
            self.bound = outer


def parameters_of(definition: ast.ClassDef | ast.expr, scope: Scope) -> tuple[str, ...]:
    """The names, in the order in which types are given for them."""
    if isinstance(definition, ast.ClassDef):
        generic = [base for base in definition.bases if last_name(base) in _GENERIC]
        return _variables(generic or definition.bases, scope)
    if isinstance(definition, ast.Call):
        said = [each.value for each in definition.keywords if each.arg == "type_params"]
        return _variables(said, scope)
    return _variables([definition], scope) if isinstance(definition, ast.Subscript | ast.BinOp) else ()


def is_variable(definition: object) -> bool:
    """Whether a name is assigned a type variable."""
    return isinstance(definition, ast.Call) and last_name(definition.func) == "TypeVar"


def bounds_of(variable: ast.Call) -> list[ast.expr]:
    """What a variable stands for where nobody says: what bounds it, or one of those it is limited to."""
    bound = [each.value for each in variable.keywords if each.arg == "bound"]
    return bound or variable.args[1:]


def given_for(parameters: tuple[str, ...], used: ast.expr) -> list[tuple[str, ast.expr]]:
    """The parameters with what a use says of them; none where it says too little or too much."""
    given = arguments(used)
    return list(zip(parameters, given, strict=True)) if len(given) == len(parameters) else []


def _variables(nodes: Iterable[ast.expr], scope: Scope) -> tuple[str, ...]:
    """The type variables in some expressions, each once, as they are first written."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [*reversed(list(nodes))]
    for _ in range(_MOST_NODES):
        if not waiting:
            break
        node = waiting.pop()
        if isinstance(node, ast.Name) and is_variable(scope.definitions.get(node.id)):
            found[node.id] = None
        waiting += list(ast.iter_child_nodes(node))[::-1]
    return tuple(found)
