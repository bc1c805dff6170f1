"""A single walk over a syntax tree that notes what its names are bound to, and the places that an analysis looks at.

The walk keeps its own stack, so deep trees cannot exhaust Python's. Every node is visited once, and nothing is
evaluated meanwhile: a function may use a name that the module binds further down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class How(Enum):
    """How a name gets its value from an expression."""

    VALUE = auto()
    ELEMENT = auto()
    """An element of it: a loop variable, an unpacked tuple."""
    ADDED = auto()
    """Joined to the earlier value: `+=`, `append`."""
    INSTANCE = auto()
    """An object of the annotated class."""
    IMPORTED = auto()
    FUNCTION = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class NameBinding:
    """A thing that a name stands for."""

    how: How
    node: ast.AST | None
    scope: NameScope
    name: str = ""
    """The imported name, or the number of a function."""


@dataclass(slots=True, eq=False)
class NameScope:
    """The names of a module, a function or a class."""

    parent: NameScope | None = None
    is_class: bool = False
    bindings: dict[str, list[NameBinding]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    """Names that `global` or `nonlocal` give to the scopes outside."""


@dataclass(slots=True)
class LocalFunction:
    """A function of the source, and the expressions that it returns."""

    scope: NameScope
    returned: list[ast.expr] = field(default_factory=list)


@dataclass(slots=True)
class Collected:
    """The findings of the walk; every place comes with its scope."""

    module: NameScope = field(default_factory=NameScope)
    functions: list[LocalFunction] = field(default_factory=list)
    lambdas: dict[int, int] = field(default_factory=dict)
    """The places in `functions` of lambdas, by the identity of their nodes."""
    attributes: dict[str, list[NameBinding]] = field(default_factory=dict)
    """The values assigned to dotted names such as `self.run`."""
    stars: list[str] = field(default_factory=list)
    """The modules of `from os import *`."""
    calls: list[tuple[ast.Call, NameScope]] = field(default_factory=list)
    handed: list[tuple[ast.expr, NameScope]] = field(default_factory=list)
    """Names that are handed on without a call: returned, as decorators, as members of classes."""
    aliases: list[tuple[ast.Name, NameScope]] = field(default_factory=list)
    iterated: list[tuple[ast.expr, NameScope]] = field(default_factory=list)
    subscripts: list[tuple[ast.Subscript, NameScope]] = field(default_factory=list)
    texts: list[ast.Constant] = field(default_factory=list)
    reflective: list[tuple[int, str]] = field(default_factory=list)
    spelled: list[tuple[int, str]] = field(default_factory=list)
    """Names with letters outside ASCII, or spelled with such letters."""
    spaced: list[ast.Attribute] = field(default_factory=list)
    """Members that fill more than their own letters, because of blanks or of letters outside ASCII."""


_LEAVES: Final = frozenset({"ctx", "op", "ops", "type_ignores", "kind", "type_comment"})
_LEAF_NODES: Final = (ast.Name, ast.Constant)
_ADDING: Final = frozenset({"append", "extend", "add", "insert", "write", "appendleft", "update", "setdefault"})


class Collector:
    """A walk over one module; `reflective` are attributes to note."""

    def __init__(self, reflective: Iterable[str]) -> None:
        self.found = Collected()
        self._reflective = frozenset(reflective)
        self._function: dict[NameScope, LocalFunction] = {}
        self._waiting: list[tuple[ast.AST, NameScope]] = []

    def collect(self, module: ast.Module) -> Collected:
        """Walk the module."""
        waiting, handlers, leaves = self._waiting, _HANDLERS, _LEAF_NODES
        waiting.append((module, self.found.module))
        while waiting:
            node, scope = waiting.pop()
            kind = type(node)
            handler = handlers.get(kind)
            if handler is not None and handler(self, node, scope):
                continue
            for name in _fields(kind):
                value = getattr(node, name, None)
                if isinstance(value, leaves):
                    self._leaf(value)
                elif isinstance(value, ast.AST):
                    waiting.append((value, scope))
                elif isinstance(value, list):
                    for each in reversed(value):
                        if isinstance(each, leaves):
                            self._leaf(each)
                        elif isinstance(each, ast.AST):
                            waiting.append((each, scope))
        return self.found

    def _leaf(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes):
                self.found.texts.append(node)
        elif isinstance(node, ast.Name) and (node.end_col_offset or 0) - node.col_offset != len(node.id):
            self.found.spelled.append((node.lineno, node.id))

    def _push(self, nodes: Iterable[ast.AST | None], scope: NameScope) -> None:
        for node in nodes:
            if isinstance(node, _LEAF_NODES):
                self._leaf(node)
            elif node is not None:
                self._waiting.append((node, scope))

    def _bind(self, name: str, how: How, node: ast.AST | None, scope: NameScope, *, to: str = "") -> None:
        owner = scope
        if name in scope.outer:
            owner = self.found.module
        owner.bindings.setdefault(name, []).append(NameBinding(how, node, scope, to))

    def _target(self, target: ast.AST, how: How, node: ast.AST | None, scope: NameScope) -> None:
        """Bind all names of a target."""
        targets = [(target, how)]
        while targets:
            each, how = targets.pop()
            if isinstance(each, ast.Name):
                self._bind(each.id, how, node, scope)
            elif isinstance(each, ast.Tuple | ast.List):
                inner = How.VALUE if how is How.UNKNOWN else How.ELEMENT
                targets += [(part, How.UNKNOWN if how is How.UNKNOWN else inner) for part in each.elts]
            elif isinstance(each, ast.Starred):
                targets.append((each.value, how))
            elif isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name):
                self._bind(each.value.id, How.ADDED, node, scope)
            elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                dotted = f"{each.value.id}.{each.attr}"
                self.found.attributes.setdefault(dotted, []).append(NameBinding(how, node, scope))

    # Each kind of node has a method; the result says whether the walk skips the children.

    def _import(self, node: ast.Import, scope: NameScope) -> bool:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self._bind(alias.asname or name, How.IMPORTED, None, scope, to=name)
        return True

    def _import_from(self, node: ast.ImportFrom, scope: NameScope) -> bool:
        for alias in node.names:
            if alias.name == "*":
                self.found.stars.append(node.module or "")
            else:
                name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                self._bind(alias.asname or alias.name, How.IMPORTED, None, scope, to=name)
        return True

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: NameScope) -> bool:
        inner = self._open_function(node, scope)
        self._bind(node.name, How.FUNCTION, None, scope, to=str(len(self.found.functions) - 1))
        self._name(node.name, node.lineno)
        self._push(reversed(node.body), inner)
        self._decorators(node.decorator_list, scope)
        self._push([node.returns], scope)
        return True

    def _lambda(self, node: ast.Lambda, scope: NameScope) -> bool:
        inner = self._open_function(node, scope)
        self.found.lambdas[id(node)] = len(self.found.functions) - 1
        self.found.functions[-1].returned.append(node.body)
        self._push([node.body], inner)
        return True

    def _open_function(self, node: Function, scope: NameScope) -> NameScope:
        inner = NameScope(parent=scope)
        self._function[inner] = LocalFunction(inner)
        self.found.functions.append(self._function[inner])
        args = node.args
        for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if each is not None:
                how = How.UNKNOWN if each.annotation is None else How.INSTANCE
                self._bind(each.arg, how, each.annotation, inner)
                self._name(each.arg, each.lineno)
                self._push([each.annotation], scope)
        positional = [*args.posonlyargs, *args.args]
        defaults = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
        for arg, default in (*defaults, *zip(args.kwonlyargs, args.kw_defaults, strict=True)):
            if default is not None:
                inner.bindings[arg.arg].append(NameBinding(How.VALUE, default, scope))
                self._push([default], scope)
        return inner

    def _name(self, name: str, line: int) -> None:
        if not name.isascii():
            self.found.spelled.append((line, name))

    def _class(self, node: ast.ClassDef, scope: NameScope) -> bool:
        self._bind(node.name, How.VALUE, None, scope)
        self._name(node.name, node.lineno)
        inner = NameScope(parent=scope, is_class=True)
        self._push(reversed(node.body), inner)
        self._decorators(node.decorator_list, scope)
        self.found.handed += [(each, scope) for each in node.bases]
        self._push((*node.bases, *(each.value for each in node.keywords)), scope)
        return True

    def _decorators(self, nodes: list[ast.expr], scope: NameScope) -> None:
        self.found.handed += [(each, scope) for each in nodes if not isinstance(each, ast.Call)]
        self._push(nodes, scope)

    def _assign(self, node: ast.Assign, scope: NameScope) -> bool:
        for target in node.targets:
            self._target(target, How.VALUE, node.value, scope)
        self._note_assigned(node.value, scope)
        return False

    def _annotated(self, node: ast.AnnAssign, scope: NameScope) -> bool:
        self._target(node.target, How.INSTANCE, node.annotation, scope)
        if node.value is not None:
            self._target(node.target, How.VALUE, node.value, scope)
            self._note_assigned(node.value, scope)
        return False

    def _note_assigned(self, value: ast.expr, scope: NameScope) -> None:
        if isinstance(value, ast.Name):
            self.found.aliases.append((value, scope))
        if scope.is_class and isinstance(value, ast.Name | ast.Attribute):
            self.found.handed.append((value, scope))

    def _augmented(self, node: ast.AugAssign, scope: NameScope) -> bool:
        self._target(node.target, How.ADDED, node.value, scope)
        return False

    def _named(self, node: ast.NamedExpr, scope: NameScope) -> bool:
        self._target(node.target, How.VALUE, node.value, scope)
        return False

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: NameScope) -> bool:
        self._target(node.target, How.ELEMENT, node.iter, scope)
        self.found.iterated.append((node.iter, scope))
        return False

    def _with(self, node: ast.withitem, scope: NameScope) -> bool:
        if node.optional_vars is not None:
            self._target(node.optional_vars, How.VALUE, node.context_expr, scope)
        return False

    def _handler(self, node: ast.ExceptHandler, scope: NameScope) -> bool:
        if node.name:
            self._bind(node.name, How.VALUE, None, scope)
        return False

    def _outer(self, node: ast.Global | ast.Nonlocal, scope: NameScope) -> bool:
        scope.outer.update(node.names)
        return True

    def _return(self, node: ast.Return | ast.Yield, scope: NameScope) -> bool:
        function = self._function.get(scope)
        if function is not None and node.value is not None:
            function.returned.append(node.value)
            if isinstance(node.value, ast.Name | ast.Attribute):
                self.found.handed.append((node.value, scope))
        return False

    def _call(self, node: ast.Call, scope: NameScope) -> bool:
        self.found.calls.append((node, scope))
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _ADDING and isinstance(func.value, ast.Name):
            for each in node.args:
                self._bind(func.value.id, How.ADDED, each, scope)
        return False

    def _attribute(self, node: ast.Attribute, _: NameScope) -> bool:
        if node.attr in self._reflective:
            self.found.reflective.append((node.lineno, node.attr))
        if not node.attr.isascii():
            self.found.spelled.append((node.lineno, node.attr))
        elif (node.end_col_offset or 0) - (node.value.end_col_offset or 0) - 1 != len(node.attr):
            self.found.spaced.append(node)
        return False

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> bool:
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            self.found.subscripts.append((node, scope))
        return False

    def _formatted(self, node: ast.FormattedValue | ast.Starred, scope: NameScope) -> bool:
        if isinstance(node.value, ast.Name | ast.Attribute):
            self.found.iterated.append((node.value, scope))
        return False

    def _statement(self, node: ast.Expr, _: NameScope) -> bool:
        return isinstance(node.value, ast.Constant)  # a docstring


# Each method takes the kind of node that it is listed for.
_HANDLERS: Final[dict[type[ast.AST], Any]] = {
    ast.Import: Collector._import,
    ast.ImportFrom: Collector._import_from,
    ast.FunctionDef: Collector._definition,
    ast.AsyncFunctionDef: Collector._definition,
    ast.Lambda: Collector._lambda,
    ast.ClassDef: Collector._class,
    ast.Assign: Collector._assign,
    ast.AnnAssign: Collector._annotated,
    ast.AugAssign: Collector._augmented,
    ast.NamedExpr: Collector._named,
    ast.For: Collector._loop,
    ast.AsyncFor: Collector._loop,
    ast.comprehension: Collector._loop,
    ast.withitem: Collector._with,
    ast.ExceptHandler: Collector._handler,
    ast.Global: Collector._outer,
    ast.Nonlocal: Collector._outer,
    ast.Return: Collector._return,
    ast.Yield: Collector._return,
    ast.Call: Collector._call,
    ast.Attribute: Collector._attribute,
    ast.Subscript: Collector._subscript,
    ast.FormattedValue: Collector._formatted,
    ast.Expr: Collector._statement,
}
_known_fields: dict[type[ast.AST], tuple[str, ...]] = {}


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a kind of node that can hold others."""
    fields = _known_fields.get(kind)
    if fields is None:
        fields = _known_fields[kind] = tuple(each for each in kind._fields if each not in _LEAVES)
    return fields
