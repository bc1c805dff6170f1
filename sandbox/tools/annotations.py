"""What an annotation means, found by walking its syntax tree against the tables written out here.

No name is looked up in a module and nothing is evaluated: an annotation is text by a stranger. What the tables do not
know is taken as `Any`: the value is passed on as it is, and the tool's own code decides in the box.
"""

from __future__ import annotations

import ast
from typing import Final

from sandbox.tools.parsing import parse_expression
from sandbox.tools.plain_json import JSON, MAX_INTEGER, MIN_INTEGER
from sandbox.tools.tool import Tool
from sandbox.tools.value_types import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    TEXT,
    ValueType,
    array_of,
    fixed_array_of,
    object_of,
    one_of,
    one_of_values,
)

MAX_ANNOTATION_DEPTH: Final = 32

TYPING_MODULES: Final = frozenset({"typing", "typing_extensions", "collections.abc", "builtins"})
_MODULE_NAMES: Final = TYPING_MODULES | {"t", "abc"}
_PLAIN: Final = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": BOOLEAN,
    "None": NULL,
    "Any": ANYTHING,
    "object": ANYTHING,
}
_ARRAYS: Final = frozenset(
    {"list", "List", "set", "Set", "frozenset", "FrozenSet", "AbstractSet", "MutableSet"}
    | {"Sequence", "MutableSequence", "Iterable", "Collection"}
)
_TUPLES: Final = frozenset({"tuple", "Tuple"})
_OBJECTS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
_FORMS: Final = frozenset({"Optional", "Union", "Literal", "Annotated"})
KNOWN_NAMES: Final = frozenset(_PLAIN) | _ARRAYS | _TUPLES | _OBJECTS | _FORMS


def value_type(annotation: str | None, *, redefined: frozenset[str]) -> ValueType:
    """The type an annotation's text means; `redefined` names mean something else in this source."""
    node = None if annotation is None else parse_expression(annotation)
    return ANYTHING if node is None else _Reader(redefined).resolve(node, depth=0)


def parameter_types(tool: Tool) -> tuple[ValueType, ...]:
    """The types of a tool's parameters, in their order."""
    return tuple(value_type(each.annotation, redefined=tool.redefined) for each in tool.parameters)


def admits_none(annotation: ast.expr | None, *, redefined: frozenset[str]) -> bool:
    """Whether the annotation says that None is a value for this parameter."""
    if annotation is None:
        return False
    reader = _Reader(redefined)
    return any(reader.is_none(member) for member in reader.union_members(annotation))


class _Reader:
    """Walks annotations of one source."""

    def __init__(self, redefined: frozenset[str]) -> None:
        self._redefined = redefined

    def resolve(self, node: ast.expr, *, depth: int) -> ValueType:
        if depth > MAX_ANNOTATION_DEPTH:
            return ANYTHING
        members = list({ast.dump(each): each for each in self._shallow(self.union_members(node))}.values())
        if not members:
            return ANYTHING
        if len(members) == 1:
            return self._resolve_one(members[0], depth=depth)
        return one_of([self._resolve_one(member, depth=depth) for member in members])

    def union_members(self, node: ast.expr) -> list[ast.expr]:
        """What a union is made of, in order; any other annotation is its own only member."""
        members: list[ast.expr] = []
        waiting = [node]
        quoted_left = MAX_ANNOTATION_DEPTH
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and quoted_left > 0:
                quoted_left -= 1
                unquoted = parse_expression(node.value)
                waiting += [] if unquoted is None else [unquoted]
                members += [node] if unquoted is None else []
            elif (inner := self._union_parts(node)) is not None:
                waiting += reversed(inner)
            else:
                members.append(node)
        return members

    def is_none(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return node.value is None
        literal = isinstance(node, ast.Subscript) and self._name(node.value) == "Literal"
        return literal and any(isinstance(each, ast.Constant) and each.value is None for each in _arguments(node))

    def _union_parts(self, node: ast.expr) -> list[ast.expr] | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [node.left, node.right]
        name = self._name(node.value) if isinstance(node, ast.Subscript) else None
        if name == "Union":
            return _arguments(node)
        if name == "Optional":
            return [*_arguments(node), ast.Constant(value=None)]
        return _arguments(node)[:1] if name == "Annotated" else None

    def _resolve_one(self, node: ast.expr, *, depth: int) -> ValueType:
        if self.is_none(node) and isinstance(node, ast.Constant):
            return NULL
        if not isinstance(node, ast.Subscript):
            return self._bare(self._name(node))
        return self._generic(self._name(node.value), _arguments(node), depth=depth + 1)

    def _bare(self, name: str | None) -> ValueType:
        if name in _ARRAYS or name in _TUPLES:
            return array_of(ANYTHING)
        if name in _OBJECTS:
            return object_of(ANYTHING)
        return _PLAIN.get(name or "", ANYTHING)

    def _generic(self, name: str | None, arguments: list[ast.expr], *, depth: int) -> ValueType:
        if name in _ARRAYS and len(arguments) == 1:
            return array_of(self.resolve(arguments[0], depth=depth))
        if name in _OBJECTS and len(arguments) == 2:
            return object_of(self.resolve(arguments[1], depth=depth))
        if name in _TUPLES:
            return self._tuple(arguments, depth=depth)
        return _literal(arguments) if name == "Literal" else ANYTHING

    def _tuple(self, arguments: list[ast.expr], *, depth: int) -> ValueType:
        last = arguments[-1] if arguments else None
        if len(arguments) == 2 and isinstance(last, ast.Constant) and last.value is Ellipsis:
            return array_of(self.resolve(arguments[0], depth=depth))
        return fixed_array_of([self.resolve(each, depth=depth) for each in arguments])

    def _name(self, node: ast.expr) -> str | None:
        """The well-known name this node stands for: `List`, `typing.List`."""
        dotted = _dotted(node)
        if dotted is None:
            return None
        module, _, name = dotted.rpartition(".")
        if module and module not in _MODULE_NAMES:
            return None
        return name if name in KNOWN_NAMES and (module or name not in self._redefined) else None

    def _shallow(self, members: list[ast.expr]) -> list[ast.expr]:
        """The members, or nothing when one is too deep to walk."""
        return members if all(_is_shallow(member) for member in members) else []


def _literal(arguments: list[ast.expr]) -> ValueType:
    values = [_literal_value(argument) for argument in arguments]
    if not values or any(isinstance(value, list) for value in values):
        return ANYTHING
    return one_of_values(tuple(values))


def _literal_value(node: ast.expr) -> JSON:
    """The value of one member of a Literal; an empty list when it is not a JSON scalar."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    constant = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    value = constant.value if isinstance(constant, ast.Constant) else ...
    if isinstance(value, int) and not isinstance(value, bool):
        signed = -value if negative else value
        return signed if MIN_INTEGER <= signed <= MAX_INTEGER else []
    return value if not negative and (value is None or isinstance(value, bool | str)) else []


def _arguments(node: ast.expr) -> list[ast.expr]:
    """What stands between the brackets of a subscript."""
    if not isinstance(node, ast.Subscript):
        return []
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 3:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _is_shallow(node: ast.expr) -> bool:
    level: list[ast.AST] = [node]
    for _ in range(MAX_ANNOTATION_DEPTH * 4):
        if not level:
            return True
        level = [child for each in level for child in ast.iter_child_nodes(each)]
    return not level
