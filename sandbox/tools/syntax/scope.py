"""Names in a source: how it writes them, what its modules import, and what its module-level names mean.

Import-time statements are those directly in the module and inside its `if`, `try`, `with` and loops. `if
TYPE_CHECKING:` and `if __name__ == "__main__":` never run in a box, so they do not count for imports. Annotations are
written against `if TYPE_CHECKING:`, so a `Scope` includes it. The last binding of a name counts. A scope keeps syntax
trees of definitions, without their methods; `Scope.reachable` keeps only those that some annotations need.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

_MAX_LENGTH: Final = 8


def dotted_name(node: ast.AST) -> str | None:
    """Return `a.b.c` for the expression of that name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MAX_LENGTH:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def docstring_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None) -> str | None:
    """Return the docstring without indentation, and without half surrogates, which an escape can put into it."""
    text = None if node is None else ast.get_docstring(node)
    return None if text is None else text.encode(errors="replace").decode()


def is_null(node: ast.expr) -> bool:
    """Return whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def last_name(node: ast.AST) -> str | None:
    """Return `c` for `a.b.c`, `a.b.c(...)` and `a.b.c[...]`: the name that identifies a base or a decorator."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def import_time_statements(module: ast.Module, *, with_typing: bool = False) -> Iterator[ast.stmt]:
    """Yield the statements that loading the module runs, in any order; `with_typing` adds those for type checkers."""
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _never_holds(node.test):
            waiting += [*node.orelse, *(node.body if with_typing and not isinstance(node.test, ast.Compare) else [])]
            continue
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += ast.iter_child_nodes(node)


def imported_names(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the imported modules and their packages; `from a import b` gives `a.b`, which may not be a module.

    `__future__` is for the compiler, and relative imports have no package.
    """
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module not in (None, "__future__"):
            names.update((str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(names | {name.partition(".")[0] for name in names})


def _never_holds(test: ast.expr) -> bool:
    if isinstance(test, ast.Name | ast.Attribute):
        return (test.id if isinstance(test, ast.Name) else test.attr) == "TYPE_CHECKING"
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.Name) and test.left.id == "__name__"


Definition: TypeAlias = "ast.ClassDef | ast.expr | None"
"""A class, what is assigned, or something else, such as a function."""

_MAX_ANCESTORS: Final = 100
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_ENUMS: Final = frozenset({"Enum", "StrEnum", "IntEnum"})


@dataclass(frozen=True, slots=True)
class Scope:
    """Names to definitions of this source, and to what they are imported from."""

    definitions: Mapping[str, Definition]
    imports: Mapping[str, str]

    def full_name(self, dotted: str) -> str | None:
        """Return `typing.List` for `t.List` after `import typing as t`; None if the source defines the name itself."""
        first, dot, rest = dotted.partition(".")
        if first in self.definitions:
            return None
        return f"{self.imports.get(first, first)}{dot}{rest}"

    def own(self, dotted: str, *, within: str = "") -> tuple[str, ast.ClassDef | ast.expr] | None:
        """Return a class or an alias of this source, and the name it has in the module; looked for in a class first."""
        inner = f"{within}.{dotted}"
        name = inner if within and inner in self.definitions else dotted
        found = self.definitions.get(name)
        return None if found is None else (name, found)

    def class_chain(self, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield a class and those of this source that it derives from."""
        return line_of_bases(node, self.definitions)

    def base_names(self, node: ast.ClassDef) -> set[str]:
        """Return the last names of all it derives from; those imported under another name by their own."""
        names: set[str] = set()
        for each in self.class_chain(node):
            for base in each.bases:
                name = last_name(base) or ""
                names.add(self.imports.get(name, name).rpartition(".")[2])
        return names

    def is_enum(self, node: ast.ClassDef) -> bool:
        return not _ENUMS.isdisjoint(self.base_names(node))

    def constant(self, dotted: str) -> ast.expr | None:
        """Return the expression assigned to a name, or to a member of an enum."""
        found = self.definitions.get(dotted)
        if isinstance(found, ast.expr):
            return found
        owner, _, member = dotted.rpartition(".")
        enum = self.definitions.get(owner.removesuffix(".value") if member == "value" else owner)
        if member == "value":
            owner, _, member = owner.rpartition(".")
            enum = self.definitions.get(owner)
        if isinstance(enum, ast.ClassDef) and self.is_enum(enum):
            return next((value for each in enum.body for name, value in assignments(each) if name == member), None)
        return None

    def reachable(self, nodes: Iterable[ast.AST]) -> Scope:
        """Return the part of it that these nodes can lead to."""
        kept: dict[str, Definition] = {}
        imports: dict[str, str] = {}
        waiting = list(nodes)
        owned: dict[str, list[str]] = {}
        for each in self.definitions:
            if "." in each:
                owned.setdefault(each.partition(".")[0], []).append(each)
        while waiting:
            for name in _names(waiting.pop()):
                if name in self.imports:
                    imports[name] = self.imports[name]
                if name not in kept and name in self.definitions:
                    definition = kept[name] = self.definitions[name]
                    waiting += [] if definition is None else [definition]
                    inner = {each: self.definitions[each] for each in owned.get(name, [])}
                    kept.update(inner)
                    waiting += [each for each in inner.values() if each is not None]
        return Scope(kept, imports)


NO_NAMES: Final = Scope({}, {})


def line_of_bases(node: ast.ClassDef, classes: Mapping[str, object]) -> Iterator[ast.ClassDef]:
    """Yield a class and those it derives from, as far as they are among these."""
    waiting, seen = [node], {node.name}
    for _ in range(_MAX_ANCESTORS):
        if not waiting:
            return
        current = waiting.pop(0)
        yield current
        for base in current.bases:
            found = classes.get(last_name(base) or "")
            if isinstance(found, ast.ClassDef) and found.name not in seen:
                seen.add(found.name)
                waiting.append(found)


def assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that an assignment gives a value to, each with the value."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value


def scope_of(statements: Iterable[ast.stmt]) -> Scope:
    """Return the scope of a module, from its statements in the order of the text."""
    definitions: dict[str, Definition] = {}
    imports: dict[str, str] = {}
    variables: dict[str, Definition] = {}
    for statement in statements:
        for name, definition in _definitions(statement):
            definitions[name] = definition
            imports.pop(name, None)
        for name, origin in _imports(statement):
            imports[name] = origin
            definitions.pop(name, None)
        for name, bound in type_parameters(statement):  # a name with two different bounds has no bound
            variables[name] = _type_variable(statement, name, None if name in variables else bound)
    return Scope({**variables, **definitions}, imports)


def type_parameters(node: ast.AST) -> list[tuple[str, ast.expr | None]]:
    """Return the names in the brackets of `class Page[T: int]:` and its like, each with what bounds it."""
    found: list[tuple[str, ast.expr | None]] = []
    for each in getattr(node, "type_params", ()):
        name = each.arg if isinstance(each, ast.arg) else each.name
        found.append((name, each.annotation if isinstance(each, ast.arg) else getattr(each, "bound", None)))
    return found


def _type_variable(statement: ast.stmt, name: str, bound: ast.expr | None) -> ast.expr:
    """Return the equivalent expression, `TypeVar("T", bound=int)`."""
    among = bound.elts if isinstance(bound, ast.Tuple) else []
    keywords = [] if bound is None or among else [ast.keyword("bound", bound)]
    return _call(statement, "TypeVar", [ast.Constant(name), *among], keywords)


def _call(statement: ast.stmt, name: str, arguments: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
    call = ast.Call(ast.Name(name, ast.Load()), arguments, keywords)
    return ast.fix_missing_locations(ast.copy_location(call, statement))


def _definitions(statement: ast.stmt) -> Iterator[tuple[str, Definition]]:
    if isinstance(statement, ast.ClassDef):
        yield from _class_and_inner(statement, prefix="")
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name, None
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        yield from ((name, _alias(statement, name, value)) for name, value in assignments(statement))
    elif isinstance(name := getattr(statement, "name", None), ast.Name):  # `type X = …`, in no tree of Python 3.11
        yield name.id, _alias(statement, name.id, getattr(statement, "value", None))


def _alias(statement: ast.stmt, name: str, value: ast.expr | None) -> ast.expr | None:
    """Return the target of an alias; one with parameters becomes `TypeAliasType("Pair", tuple[A, B], type_params=(A,
    B))`.
    """
    names: list[ast.expr] = [ast.Name(each, ast.Load()) for each, _ in type_parameters(statement)]
    if not names or value is None:
        return value
    keywords = [ast.keyword("type_params", ast.Tuple(names, ast.Load()))]
    return _call(statement, "TypeAliasType", [ast.Constant(name), value], keywords)


def _class_and_inner(node: ast.ClassDef, *, prefix: str) -> Iterator[tuple[str, Definition]]:
    name = f"{prefix}{node.name}"
    names: list[ast.expr] = [ast.Name(each, ast.Load()) for each, _ in type_parameters(node)]
    generic = (
        [ast.Subscript(ast.Name("Generic", ast.Load()), ast.Tuple(names, ast.Load()), ast.Load())] if names else []
    )
    bare = ast.ClassDef(
        name=node.name,
        bases=[*node.bases, *generic],
        keywords=node.keywords,
        body=[each for each in node.body if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)],
        decorator_list=node.decorator_list,
    )
    yield name, ast.copy_location(bare, node)
    for each in node.body:
        if isinstance(each, ast.ClassDef) and prefix.count(".") < 4:
            yield from _class_and_inner(each, prefix=f"{name}.")


def _imports(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname is not None:
                yield alias.asname, alias.name
            else:
                first = alias.name.partition(".")[0]
                yield first, first
    elif isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        for alias in statement.names:
            yield alias.asname or alias.name, f"{module}.{alias.name}"


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a tree uses, also inside quoted annotations."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.Name):
            yield current.id
        elif isinstance(current, ast.Constant) and isinstance(current.value, str) and len(current.value) < 4096:
            yield from _IDENTIFIER.findall(current.value)
        waiting += ast.iter_child_nodes(current)
