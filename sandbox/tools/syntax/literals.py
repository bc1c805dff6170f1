"""Values that stand in a source as they are: constants, displays of them, and names of such constants of the module.

`ast.literal_eval` knows no names and recurses; here names are looked up among the module's own constants, and the walk
ends at a depth and at a number of values, because names that hold names multiply.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.tools.syntax.scope import dotted_name

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 20_000
_MAX_TEXT_LENGTH: Final = 1 << 20
_MAX_NUMBER: Final = 2**64
_SMALLER: Final[dict[type[ast.operator], int]] = {ast.Pow: 64, ast.LShift: 64}
"""How large what stands right of an operator may be, where it decides how large the result is."""
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


class NotLiteral(Exception):
    """A node that is not a literal; `node` is the innermost such part."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__("not a literal")
        self.node = node


def literal(node: ast.expr, constant: Callable[[str], ast.expr | None]) -> Any:
    """Return the value of an expression, or raise `NotLiteral`; `constant` returns the expression behind a name."""
    return _LiteralReader(constant).value(node, depth=0)


@dataclass(slots=True)
class _LiteralReader:
    """An evaluation, and the number of values that it may still make."""

    constant_of: Callable[[str], ast.expr | None]
    left: int = MAX_VALUES
    named: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """The values of names, and how many values each consists of: a name that is used again counts again."""

    def value(self, node: ast.expr, *, depth: int) -> Any:
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise NotLiteral(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return self._several(node, depth=depth + 1)
        if isinstance(node, ast.Dict):
            return self._members(node, depth=depth + 1)
        if isinstance(node, ast.UnaryOp):
            return self._apply_sign(node, depth=depth + 1)
        if isinstance(node, ast.BinOp):
            return self._operate(node, depth=depth + 1)
        return self._look_up(node, depth=depth + 1)

    def _several(self, node: ast.List | ast.Tuple | ast.Set, *, depth: int) -> Any:
        values = [self.value(each, depth=depth) for each in node.elts]
        if isinstance(node, ast.Set):
            return self._hashed(node, values)
        return tuple(values) if isinstance(node, ast.Tuple) else values

    def _hashed(self, node: ast.Set, values: list[Any]) -> Any:
        try:
            return set(values)
        except TypeError:
            raise NotLiteral(node) from None

    def _members(self, node: ast.Dict, *, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            found = self.value(value, depth=depth)
            if key is None:
                members.update(found if isinstance(found, dict) else {})
                continue
            name = self.value(key, depth=depth)
            if not isinstance(name, str | int | float | bool | None):
                raise NotLiteral(key)
            members[name] = found
        return members

    def _apply_sign(self, node: ast.UnaryOp, *, depth: int) -> Any:
        value = self.value(node.operand, depth=depth)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(node.op, ast.USub):
                return -value
            if isinstance(node.op, ast.UAdd):
                return value
        raise NotLiteral(node)

    def _operate(self, node: ast.BinOp, *, depth: int) -> Any:
        """Return text joined with `+`, and the result of small calculations such as `60 * 60` and `2**31 - 1`."""
        left, right = self.value(node.left, depth=depth), self.value(node.right, depth=depth)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            if len(left) + len(right) <= _MAX_TEXT_LENGTH:
                return left + right
            raise NotLiteral(node)
        calculated = _calculate(node.op, left, right)
        if calculated is None:
            raise NotLiteral(node)
        return calculated

    def _look_up(self, node: ast.expr, *, depth: int) -> Any:
        name = dotted_name(node)
        constant = None if name is None else self.constant_of(name)
        if name is None or constant is None:
            raise NotLiteral(node)
        if name not in self.named:
            before = self.left
            found = self.value(constant, depth=depth)
            self.named[name] = found, before - self.left
            return found
        found, count = self.named[name]
        self.left -= count
        if self.left < 0:
            raise NotLiteral(node)
        return found


def _calculate(sign: ast.operator, left: object, right: object) -> int | float | None:
    """Return the result of an operation on two small numbers, or None without one."""
    calculate = _OPERATORS.get(type(sign))
    if (
        calculate is None
        or not _is_small(left, _MAX_NUMBER)
        or not _is_small(right, _SMALLER.get(type(sign), _MAX_NUMBER))
    ):
        return None
    try:
        made = calculate(left, right)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return made if isinstance(made, int | float) else None


def _is_small(value: object, largest: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= largest
