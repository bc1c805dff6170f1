"""What an annotation is a union of, and whether None is one of the values it names.

`a | b`, `Union[a, b]` and `Optional[a]` say the same, each of them in quotes or not, and hold each other as deep as a
stranger likes. So nothing here calls itself, and every walk has an end: quotes are opened a number of times only, and
no name is followed twice, nor more than a number of them.

Two questions are asked of a union. What type it makes is asked of its members as they are written: an alias is one
member, with a type of its own, which may contain this very union. Whether None is among them decides if a parameter may
be left out, and is asked before any type is made; so aliases and `Annotated` are looked through here, and a `Literal`
is looked into.
"""

from __future__ import annotations

import ast
from typing import Final

from sandbox.tools.annotation_syntax import MAX_ANNOTATION_DEPTH, arguments, unquoted
from sandbox.tools.known_types import known_name
from sandbox.tools.names_in_source import dotted_name
from sandbox.tools.scope import Scope

_MOST_NAMES: Final = 2000


def well_known_name(node: ast.expr, scope: Scope) -> str | None:
    """The well-known name this node stands for: `List`, `typing.List`."""
    dotted = dotted_name(node)
    if dotted is None:
        return None
    full = scope.full_name(dotted)
    return None if full is None else known_name(full, is_imported=dotted.partition(".")[0] in scope.imports)


def union_members(node: ast.expr, scope: Scope) -> list[ast.expr]:
    """What a union is made of, in order; any other annotation is its own only member."""
    members: list[ast.expr] = []
    waiting = [node]
    quoted_left = MAX_ANNOTATION_DEPTH
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and quoted_left > 0:
            quoted_left -= 1
            bare = unquoted(node)
            waiting += [] if bare is None else [bare]
            members += [node] if bare is None else []
        elif (inner := _union_parts(node, scope)) is not None:
            waiting += reversed(inner)
        else:
            members.append(node)
    return members or [node]


def names_none(annotation: ast.expr | None, scope: Scope, *, within: str) -> bool:
    """Whether None is one of the values that it names, standing within that class of the source, or in none."""
    waiting = [] if annotation is None else [annotation]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if _is_none(node, scope):
            return True
        own = own_name(node, scope, within=within)
        if own is None:
            waiting += _parts(node, scope)
        elif own not in seen and len(seen) <= _MOST_NAMES:
            seen.add(own)
            waiting += _meant(own, scope, within=within)
    return False


def own_name(node: ast.expr, scope: Scope, *, within: str) -> str | None:
    """The name in an annotation `Ids` or `Many[int]`, where the source itself defines it."""
    dotted = dotted_name(node.value if isinstance(node, ast.Subscript) else node)
    return None if dotted is None or scope.own(dotted, within=within) is None else dotted


def _meant(name: str, scope: Scope, *, within: str) -> list[ast.expr]:
    """What an alias stands for."""
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
    """What an annotation is a union of, or is written around."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        bare = unquoted(node)
        return [] if bare is None else [bare]
    if isinstance(node, ast.Subscript) and well_known_name(node.value, scope) == "Annotated":
        return arguments(node)[:1]
    return _union_parts(node, scope) or []


def _is_none(node: ast.expr, scope: Scope) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if well_known_name(node, scope) in ("None", "NoneType"):
        return True
    literal = isinstance(node, ast.Subscript) and well_known_name(node.value, scope) == "Literal"
    return literal and any(isinstance(each, ast.Constant) and each.value is None for each in arguments(node))
