"""Parts of an annotation's syntax tree, and unions: their members, and whether None is one of their values.

`a | b`, `Union[a, b]` and `Optional[a]` mean the same, each of them quoted or not, nested as deep as an author likes.
So the functions for unions do not recurse, and every walk has an end: the number of opened quotes is bounded, and no
name is followed twice.

The members of a union are taken as written: an alias is one member, with a type of its own that may contain this very
union. Whether None is among the values decides if a parameter may be left out, before any type is made; so `names_none`
looks through aliases and `Annotated`, and into a `Literal`.
"""

from __future__ import annotations

import ast
from itertools import islice
from typing import Any, Final

from sandbox.tools.plain_json import JSON, MAX_INTEGER, MIN_INTEGER
from sandbox.tools.safe_text import excerpt
from sandbox.tools.syntax.parsing import parse_expression
from sandbox.tools.syntax.scope import Scope, dotted_name
from sandbox.tools.types.known_types import known_name

MAX_ANNOTATION_DEPTH: Final = 32
_MAX_WORDS: Final = 4


def unquote(node: ast.Constant) -> ast.expr | None:
    """Return the expression inside a quoted annotation, located where the quotes are."""
    assert isinstance(node.value, str)
    parsed = parse_expression(node.value)
    if parsed is not None and hasattr(node, "lineno"):
        for each in ast.walk(parsed):
            if isinstance(each, ast.expr):
                ast.copy_location(each, node)
    return parsed


def literal_value(node: ast.expr) -> JSON:
    """Return the value of one member of a Literal; an empty list when it is not a JSON scalar."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    constant = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    value = constant.value if isinstance(constant, ast.Constant) else ...
    if isinstance(value, int) and not isinstance(value, bool):
        signed = -value if negative else value
        return signed if MIN_INTEGER <= signed <= MAX_INTEGER else []
    return value if not negative and (value is None or isinstance(value, bool | str)) else []


def arguments(node: ast.expr) -> list[ast.expr]:
    """Return the expressions between the brackets of a subscript."""
    if not isinstance(node, ast.Subscript):
        return []
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def node_text(node: Any) -> str:
    """Return an annotation in a message."""
    name = dotted_name(node.value if isinstance(node, ast.Subscript) else getattr(node, "func", node))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return excerpt(repr(node.value), 64)
    if name is None:
        return "an expression"
    return excerpt(f"{name}[…]" if isinstance(node, ast.Subscript) else name, 64)


def why_unknown(dotted: str | None, scope: Scope) -> str:
    """Return why an annotation cannot use a name."""
    if dotted is None:
        return "it is no type"
    first = dotted.partition(".")[0]
    if first in scope.imports:
        return f"it is imported from {excerpt(scope.imports[first].rpartition('.')[0] or first, 64)}"
    if first in scope.definitions:
        return "it is no class or alias of this source"
    return "it is no type that JSON has, and the source does not define it"


def spelling(node: ast.expr) -> str:
    """Return the same for the same annotation."""
    if isinstance(node, ast.Name):
        return node.id
    return ast.dump(node) if is_shallow(node) else f"at {id(node)}"


def words_of(used: ast.expr) -> str:
    """Return the names between the brackets of a subscript, in one word."""
    found = (each.id for argument in arguments(used) for each in ast.walk(argument) if isinstance(each, ast.Name))
    return "-".join(islice(found, _MAX_WORDS)) or "of"


def is_shallow(node: ast.expr) -> bool:
    """Return whether it can be walked by a function that calls itself."""
    if isinstance(node, ast.Name | ast.Constant):
        return True
    level: list[ast.AST] = [node]
    for _ in range(MAX_ANNOTATION_DEPTH * 4):
        if not level:
            return True
        level = [child for each in level for child in ast.iter_child_nodes(each)]
    return not level


_MAX_NAMES: Final = 2000


def well_known_name(node: ast.expr, scope: Scope) -> str | None:
    """Return the well-known name this node stands for: `List`, `typing.List`."""
    dotted = dotted_name(node)
    if dotted is None:
        return None
    full = scope.full_name(dotted)
    return None if full is None else known_name(full, is_imported=dotted.partition(".")[0] in scope.imports)


def union_members(node: ast.expr, scope: Scope) -> list[ast.expr]:
    """Return the members of a union, in order; another annotation is its own only member."""
    members: list[ast.expr] = []
    waiting = [node]
    quoted_left = MAX_ANNOTATION_DEPTH
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and quoted_left > 0:
            quoted_left -= 1
            bare = unquote(node)
            waiting += [] if bare is None else [bare]
            members += [node] if bare is None else []
        elif (inner := _union_parts(node, scope)) is not None:
            waiting += reversed(inner)
        else:
            members.append(node)
    return members or [node]


def names_none(annotation: ast.expr | None, scope: Scope, *, within: str) -> bool:
    """Return whether None is one of the values that it names, standing within that class of the source, or in none."""
    waiting = [] if annotation is None else [annotation]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if _is_null(node, scope):
            return True
        own = own_name(node, scope, within=within)
        if own is None:
            waiting += _parts(node, scope)
        elif own not in seen and len(seen) <= _MAX_NAMES:
            seen.add(own)
            waiting += _meant(own, scope, within=within)
    return False


def own_name(node: ast.expr, scope: Scope, *, within: str) -> str | None:
    """Return the name in an annotation `Ids` or `Many[int]`, where the source itself defines it."""
    dotted = dotted_name(node.value if isinstance(node, ast.Subscript) else node)
    return None if dotted is None or scope.own(dotted, within=within) is None else dotted


def _meant(name: str, scope: Scope, *, within: str) -> list[ast.expr]:
    """Return the target of an alias."""
    own = scope.own(name, within=within)
    meant = None if own is None else own[1]
    if isinstance(meant, ast.Call):  # `NewType("Id", int)`, `TypeAliasType("Ids", list[int])`
        return meant.args[1:2]
    return [meant] if isinstance(meant, ast.expr) else []


def _union_parts(node: ast.expr, scope: Scope) -> list[ast.expr] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [node.left, node.right]
    name = well_known_name(node.value, scope) if isinstance(node, ast.Subscript) else None
    if name == "Union":
        return arguments(node)
    if name == "Optional":
        return [*arguments(node), ast.copy_location(ast.Constant(value=None), node)]
    return None


def _parts(node: ast.expr, scope: Scope) -> list[ast.expr]:
    """Return the members of a union, or the annotation inside `Annotated` or quotes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        bare = unquote(node)
        return [] if bare is None else [bare]
    if isinstance(node, ast.Subscript) and well_known_name(node.value, scope) == "Annotated":
        return arguments(node)[:1]
    return _union_parts(node, scope) or []


def _is_null(node: ast.expr, scope: Scope) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if well_known_name(node, scope) in ("None", "NoneType"):
        return True
    literal = isinstance(node, ast.Subscript) and well_known_name(node.value, scope) == "Literal"
    return literal and any(isinstance(each, ast.Constant) and each.value is None for each in arguments(node))
