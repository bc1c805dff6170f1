"""Names as a source writes them: `a`, `a.b.c`, and the last part of such a name."""

from __future__ import annotations

import ast
from typing import Final

_LONGEST: Final = 8


def dotted_name(node: ast.AST) -> str | None:
    """`a.b.c` from the expression that says so."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _LONGEST:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def last_name(node: ast.AST) -> str | None:
    """`c` of `a.b.c`, of `a.b.c(...)` and of `a.b.c[...]`: what a base or a decorator is known by."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
