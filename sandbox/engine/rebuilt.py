"""Whether a tool's arguments have to be made into something else than JSON before they are handed over.

Most tools take strings, numbers, lists and dicts, and what the engine sends is that already; finding out what their
annotations are in the box would only cost time there. So that is asked for where an annotation names anything else.
"""

from __future__ import annotations

import ast
from typing import Final

from sandbox.tools import ToolDefinition
from sandbox.tools.syntax.parsing import parse_expression
from sandbox.tools.syntax.scope import Scope, dotted_name
from sandbox.tools.types.known_types import ARRAYS, MAPPINGS, PLAIN, SETS, known_name
from sandbox.tools.weighted_lru import WeightedLRU

_JSON: Final = frozenset(PLAIN) | (ARRAYS - SETS) | {"Optional", "Union"}
_found: WeightedLRU[tuple[str, str], bool] = WeightedLRU(most=1024, heaviest=1024)


def needs_rebuilding(tool: ToolDefinition) -> bool:
    """Whether any of its annotations names more than JSON has."""
    key = (tool.digest, tool.entry)
    found = _found.get(key)
    if found is None:
        annotations = {each.annotation for each in tool.parameters if each.annotation is not None}
        found = tool.call.takes_mapping or not all(_is_json(each, tool.scope) for each in annotations)
        _found.put(key, found)
    return found


def _is_json(annotation: str, scope: Scope) -> bool:
    waiting: list[ast.expr | None] = [parse_expression(annotation)]
    looks_left = len(annotation) + 1
    while waiting:
        node = waiting.pop()
        looks_left -= 1
        inner = None if node is None or looks_left < 0 else _inner(node, scope)
        if inner is None:
            return False
        waiting += inner
    return True


def _inner(node: ast.expr, scope: Scope) -> list[ast.expr | None] | None:
    """What has to be looked at next; None where this is no JSON."""
    if isinstance(node, ast.Constant):
        return [parse_expression(node.value)] if isinstance(node.value, str) else [] if node.value is None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [node.left, node.right]
    if not isinstance(node, ast.Subscript):
        return [] if _name(node, scope) in _JSON | MAPPINGS else None
    name = _name(node.value, scope)
    arguments = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        return [] if all(_is_plain_literal(each) for each in arguments) else None
    if name in MAPPINGS:
        return [*arguments[1:]] if _name(arguments[0], scope) in ("str", "Any") else None
    return [*arguments] if name in _JSON else None


def _is_plain_literal(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) and not isinstance(value.value, bytes)


def _name(node: ast.expr, scope: Scope) -> str | None:
    """The well-known name that a node stands for."""
    dotted = dotted_name(node)
    full = None if dotted is None else scope.full_name(dotted)
    if dotted is None or full is None:
        return None
    return known_name(full, is_imported=dotted.partition(".")[0] in scope.imports)
