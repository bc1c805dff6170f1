"""Pieces of an annotation's syntax tree, taken apart and told of without knowing what any name means."""

from __future__ import annotations

import ast
from itertools import islice
from typing import Any, Final

from sandbox.tools.names_in_source import dotted_name
from sandbox.tools.parsing import parse_expression
from sandbox.tools.plain_json import JSON, MAX_INTEGER, MIN_INTEGER
from sandbox.tools.safe_text import excerpt
from sandbox.tools.scope import Scope

MAX_ANNOTATION_DEPTH: Final = 32
_MOST_WORDS: Final = 4


def unquoted(node: ast.Constant) -> ast.expr | None:
    """What a quoted annotation says, standing where the quotes stand."""
    assert isinstance(node.value, str)
    parsed = parse_expression(node.value)
    if parsed is not None and hasattr(node, "lineno"):
        for each in ast.walk(parsed):
            if isinstance(each, ast.expr):
                ast.copy_location(each, node)
    return parsed


def literal_value(node: ast.expr) -> JSON:
    """The value of one member of a Literal; an empty list when it is not a JSON scalar."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    constant = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    value = constant.value if isinstance(constant, ast.Constant) else ...
    if isinstance(value, int) and not isinstance(value, bool):
        signed = -value if negative else value
        return signed if MIN_INTEGER <= signed <= MAX_INTEGER else []
    return value if not negative and (value is None or isinstance(value, bool | str)) else []


def arguments(node: ast.expr) -> list[ast.expr]:
    """What stands between the brackets of a subscript."""
    if not isinstance(node, ast.Subscript):
        return []
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def shown(node: Any) -> str:
    """An annotation in a message."""
    name = dotted_name(node.value if isinstance(node, ast.Subscript) else getattr(node, "func", node))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return excerpt(repr(node.value), 64)
    if name is None:
        return "an expression"
    return excerpt(f"{name}[…]" if isinstance(node, ast.Subscript) else name, 64)


def why_unknown(dotted: str | None, scope: Scope) -> str:
    """Why a name is none that an annotation may have."""
    if dotted is None:
        return "it is no type"
    first = dotted.partition(".")[0]
    if first in scope.imports:
        return f"it is imported from {excerpt(scope.imports[first].rpartition('.')[0] or first, 64)}"
    if first in scope.definitions:
        return "it is no class or alias of this source"
    return "it is no type that JSON has, and the source does not define it"


def spelling(node: ast.expr) -> str:
    """The same for the same annotation."""
    if isinstance(node, ast.Name):
        return node.id
    return ast.dump(node) if is_shallow(node) else f"at {id(node)}"


def words_of(used: ast.expr) -> str:
    """The names between the brackets of a subscript, in one word."""
    found = (each.id for argument in arguments(used) for each in ast.walk(argument) if isinstance(each, ast.Name))
    return "-".join(islice(found, _MOST_WORDS)) or "of"


def is_shallow(node: ast.expr) -> bool:
    """Whether it can be walked by a function that calls itself."""
    if isinstance(node, ast.Name | ast.Constant):
        return True
    level: list[ast.AST] = [node]
    for _ in range(MAX_ANNOTATION_DEPTH * 4):
        if not level:
            return True
        level = [child for each in level for child in ast.iter_child_nodes(each)]
    return not level
