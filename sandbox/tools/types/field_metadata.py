"""Read the metadata of a parameter or a member in `Field(...)`, `field(...)` and `Annotated`.

Only literals are read. Constraints go to pydantic as they are, so pydantic decides what a constraint means and whether
it is valid.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.tools.plain_json import JSON, NotPlain, PlainCopy
from sandbox.tools.syntax.literals import NotLiteral, literal
from sandbox.tools.syntax.scope import Scope, last_name
from sandbox.tools.types.json_schemas import REFERENCE

FIELDS: Final = frozenset({"Field", "field"})
_CONSTRAINTS: Final = frozenset(
    {"gt", "ge", "lt", "le", "multiple_of", "max_digits", "decimal_places", "min_length", "max_length", "pattern"}
    | {"examples", "json_schema_extra"}
)
_SPELLED: Final = {"regex": "pattern", "min_items": "min_length", "max_items": "max_length"}
_BARE: Final = {"Gt": "gt", "Ge": "ge", "Lt": "lt", "Le": "le", "MinLen": "min_length", "MaxLen": "max_length"}
_GROUPS: Final = frozenset({"StringConstraints", "Interval", "Len", "Meta"})
_OF_OURS: Final = frozenset({"type", "properties", "required", "title", REFERENCE})
_MAX_DEFAULT_LENGTH: Final = 16 * 1024
_EMPTY: Final[dict[str, Any]] = {"list": [], "dict": {}, "set": [], "tuple": [], "frozenset": []}


class _Absent:
    """No default, or none that is a plain value."""


ABSENT: Final = _Absent()


@dataclass(slots=True)
class FieldMetadata:
    """The metadata of one member."""

    has_default: bool = False
    default: JSON | _Absent = ABSENT
    description: str | None = None
    alias: str | None = None
    is_left_out: bool = False
    """Whether the constructor of its class does not take it: `field(init=False)`."""
    is_unreturned: bool = False
    """Whether its class does not write it: `Field(exclude=True)`."""
    constraints: dict[str, Any] = field(default_factory=dict)
    faults: list[ast.AST] = field(default_factory=list)
    """The parts that are not literals."""

    def add(self, other: FieldMetadata) -> None:
        """Take over what another says; the later counts."""
        self.has_default = self.has_default or other.has_default
        self.default = other.default if other.has_default else self.default
        self.description = other.description or self.description
        self.alias = other.alias or self.alias
        self.is_left_out = self.is_left_out or other.is_left_out
        self.is_unreturned = self.is_unreturned or other.is_unreturned
        self.constraints.update(other.constraints)
        self.faults += other.faults


def read_default(node: ast.expr | None, scope: Scope) -> FieldMetadata:
    """Return the metadata behind the `=` of a parameter or a member."""
    if node is None:
        return FieldMetadata()
    if isinstance(node, ast.Call) and last_name(node.func) in FIELDS:
        return _of_field(node, scope)
    return FieldMetadata(has_default=True, default=plain_default(node, scope))


def read_annotated_extra(node: ast.expr, scope: Scope) -> FieldMetadata:
    """Return the metadata in one of the extras of an `Annotated`; an unknown extra has none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return FieldMetadata(description=node.value)
    name = last_name(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call):
        return _text_of_name(node, scope)
    if name in FIELDS:
        return _of_field(node, scope)
    if name in ("Doc", "doc") and node.args:
        return FieldMetadata(description=_text(node.args[0], scope))
    if name in _BARE and node.args:
        return _read_constraints({_BARE[name]: node.args[0]}, scope)
    if name in _GROUPS:
        positional = dict(zip(("min_length", "max_length"), node.args, strict=False)) if name == "Len" else {}
        return _read_constraints({**positional, **{each.arg: each.value for each in node.keywords if each.arg}}, scope)
    return FieldMetadata()


def plain_default(node: ast.expr, scope: Scope) -> JSON | _Absent:
    """Return the default as a schema shows it; absent, when it is not written out or has no JSON form."""
    try:
        value = literal(node, scope.constant)
        plain = PlainCopy().copy(sorted(value, key=repr) if isinstance(value, set) else value)
        return plain if len(json.dumps(plain)) <= _MAX_DEFAULT_LENGTH else ABSENT
    except (NotLiteral, NotPlain, RecursionError):
        return ABSENT


def _of_field(call: ast.Call, scope: Scope) -> FieldMetadata:
    keywords = {each.arg: each.value for each in call.keywords if each.arg}
    metadata = _read_constraints(keywords, scope)
    default = keywords.get("default", call.args[0] if call.args else None)
    if default is not None and not _is_ellipsis(default):
        metadata.has_default, metadata.default = True, plain_default(default, scope)
    elif (factory := keywords.get("default_factory")) is not None:
        made = _EMPTY.get(last_name(factory) or "") if isinstance(factory, ast.Name) else None
        metadata.has_default, metadata.default = True, ABSENT if made is None else made
    metadata.alias = _alias(keywords, scope)
    metadata.is_left_out = _is(keywords.get("init"), False)
    metadata.is_unreturned = _is(keywords.get("exclude"), True)
    return metadata


def _read_constraints(keywords: dict[str, ast.expr], scope: Scope) -> FieldMetadata:
    metadata = FieldMetadata()
    for keyword, node in keywords.items():
        name = _SPELLED.get(keyword, keyword)
        if name == "description":
            metadata.description = _text(node, scope)
        elif name == "metadata":
            metadata.description = _metadata_description(node, scope) or metadata.description
        elif name in _CONSTRAINTS:
            try:
                metadata.constraints[name] = _plain_constraint(name, literal(node, scope.constant))
            except NotLiteral as fault:
                metadata.faults.append(fault.node)
            except (NotPlain, RecursionError):
                metadata.faults.append(node)
    return metadata


def _plain_constraint(name: str, value: object) -> object:
    """Return a constraint as pydantic may have it; what is shown in schemas is plain, and refers to nothing."""
    if name == "json_schema_extra" and not isinstance(value, dict):
        raise NotPlain("is not a dict", value)
    if name == "examples" and not isinstance(value, list | tuple):
        raise NotPlain("is not a list", value)
    plain = PlainCopy().copy(value)
    if name != "json_schema_extra" or not isinstance(plain, dict):
        return plain
    return {key: each for key, each in plain.items() if key not in _OF_OURS and not key.startswith("$")}


def _alias(keywords: dict[str, ast.expr], scope: Scope) -> str | None:
    node = keywords.get("validation_alias", keywords.get("alias"))
    return None if node is None else _text(node, scope)


def _metadata_description(node: ast.expr, scope: Scope) -> str | None:
    """Return the description in a dataclass field's metadata."""
    value = plain_default(node, scope)
    described = value.get("description") if isinstance(value, dict) else None
    return described if isinstance(described, str) else None


def _text(node: ast.expr, scope: Scope) -> str | None:
    value = plain_default(node, scope)
    return value if isinstance(value, str) else None


def _text_of_name(node: ast.expr, scope: Scope) -> FieldMetadata:
    return FieldMetadata(description=_text(node, scope)) if isinstance(node, ast.Name | ast.BinOp) else FieldMetadata()


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
