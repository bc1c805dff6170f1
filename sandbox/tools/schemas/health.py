"""Judge how fit a schema is for a model: for strict mode, only without strict mode, or invalid for every provider.

*Strict compliant* means that strict mode takes the schema, once its optional properties are nullable (see `strict`).
*Non-strict only* is a sound schema that says more than strict mode can: open objects, or unsupported keywords.
*Invalid* is broken for all. The worst level found counts; at most a hundred reasons are listed.

The rules are a table of functions; each looks at one node and yields its faults. The walk visits every node once, and
references are resolved but never followed, so the time grows with the size of the schema only. A value that cannot be
read as a schema is `INVALID` as well: no value makes `health` raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

from sandbox.tools.plain_json import JSON
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.schemas.nodes import (
    DEFINITIONS,
    LISTS,
    MAX_FINDINGS,
    ROOT,
    TYPES,
    UNIONS,
    Schema,
    SchemaFinding,
    UnreadableSchema,
    children,
    members_of,
    parameters_of,
    plain_schema,
    properties_of,
    required_of,
    target,
    types_of,
    under,
)

NOT_STRICT: Final = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"}
    | {"patternProperties", "propertyNames", "unevaluatedProperties", "minProperties", "maxProperties"}
    | {"prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems"}
    | {"minLength", "maxLength", "contentEncoding", "contentMediaType", "contentSchema"}
    | {"$dynamicRef", "$recursiveRef"}
)
_SHAPES: Final = ("type", "properties", "items", "prefixItems", *UNIONS, "enum", "const", "$ref")
# Schemas under these keywords are conditions and say only a part of what a value is.
_CONDITIONS: Final = frozenset(
    {"not", "if", "then", "else", "contains", "propertyNames", "dependentSchemas", "contentSchema"}
    | {"unevaluatedItems", "unevaluatedProperties", "additionalItems"}
)
_MAX_UNFOLDED: Final = 100


class Level(StrEnum):
    """The uses of a schema, from the best level on."""

    STRICT_COMPLIANT = "STRICT_COMPLIANT"
    NON_STRICT_ONLY = "NON_STRICT_ONLY"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Health:
    """A schema's level, and why it is not the best one."""

    level: Level
    reasons: tuple[SchemaFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, where it is, and what its references are resolved in."""

    node: Schema
    path: str
    root: Schema

    @property
    def is_root(self) -> bool:
        return self.node is self.root


_Fault: TypeAlias = tuple[Level, str, str]
_Rule: TypeAlias = Callable[[_Place], Iterator[_Fault]]


def health(schema: object) -> Health:
    """Return the level of a schema, of a tool or of its parameters, and the reasons for it."""
    try:
        parameters = parameters_of(plain_schema(schema))
    except UnreadableSchema as fault:
        return Health(Level.INVALID, (fault.finding,))
    return _summary(_faults(parameters))


def invalid_reasons(schema: object) -> tuple[SchemaFinding, ...]:
    """Return the reasons that make a schema invalid, without those that concern strict mode only."""
    try:
        faults = _faults(parameters_of(plain_schema(schema)))
    except UnreadableSchema as fault:
        return (fault.finding,)
    invalid = (SchemaFinding(path, message) for level, path, message in faults if level is Level.INVALID)
    return tuple(islice(invalid, MAX_FINDINGS))


def _summary(faults: Iterator[_Fault]) -> Health:
    levels: set[Level] = set()
    reasons: list[SchemaFinding] = []
    for level, path, message in faults:
        levels.add(level)
        if len(reasons) < MAX_FINDINGS:
            reasons.append(SchemaFinding(path, message))
    worst = max(levels, key=list(Level).index, default=Level.STRICT_COMPLIANT)
    return Health(worst, tuple(reasons))


def _faults(root: Schema) -> Iterator[_Fault]:
    if root.get("type") != "object":
        yield Level.INVALID, ROOT, "the top level is not of type object"
    waiting: list[tuple[str, JSON]] = [(ROOT, root)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict):
            yield from _no_schema(node, path)
            continue
        place = _Place(node, path, root)
        for rule in _RULES:
            yield from rule(place)
        waiting.extend(reversed(list(_value_schemas(node, path))))


def _value_schemas(node: Schema, path: str) -> Iterator[tuple[str, JSON]]:
    """Yield the schemas below a node that say what a value is, as far as they could be schemas."""
    full = {keyword: value for keyword, value in node.items() if keyword not in _CONDITIONS}
    if isinstance(full.get("additionalProperties"), bool):
        del full["additionalProperties"]
    if "prefixItems" in full and full.get("items") is False:
        del full["items"]
    return children(full, path)


def _no_schema(node: JSON, path: str) -> Iterator[_Fault]:
    shown = "takes every value" if node is True else "is not a schema"
    yield Level.INVALID, path, f"{shown}: say which type it has"


def _shape(place: _Place) -> Iterator[_Fault]:
    if not any(keyword in place.node for keyword in _SHAPES):
        yield Level.INVALID, place.path, "says nothing about the type of its value"


def _type(place: _Place) -> Iterator[_Fault]:
    if "type" not in place.node:
        return
    given = place.node["type"]
    names = given if isinstance(given, list) else [given]
    if not names:
        yield Level.INVALID, place.path, "the list of types is empty"
    for name in names:
        if name not in TYPES:
            shown = excerpt(name, NAME_LENGTH) if isinstance(name, str) else type(name).__name__
            yield Level.INVALID, place.path, f"{shown} is not a type of JSON schemas"


def _containers(place: _Place) -> Iterator[_Fault]:
    for keyword in ("properties", *DEFINITIONS):
        if not isinstance(place.node.get(keyword, {}), dict):
            yield Level.INVALID, place.path, f"`{keyword}` is not an object"
    for keyword in (*LISTS, "enum"):
        value = place.node.get(keyword, [None])
        if not isinstance(value, list) or not value:
            yield Level.INVALID, place.path, f"`{keyword}` is not a list with members"


def _required(place: _Place) -> Iterator[_Fault]:
    if not isinstance(place.node.get("required", []), list):
        yield Level.INVALID, place.path, "`required` is not a list"
        return
    listed = properties_of(place.node)
    if any(not isinstance(name, str) for name in members_of(place.node, "required")):
        yield Level.INVALID, place.path, "`required` names something that is not a string"
    for name in dict.fromkeys(required_of(place.node)):
        if name not in listed:
            yield Level.INVALID, place.path, f"`required` names {excerpt(name, NAME_LENGTH)}, which is no property"
        elif _admits_only_empty(place.root, listed[name]):
            path = under(under(place.path, "properties"), name)
            yield Level.INVALID, path, "is required and admits only the empty object"


def _array(place: _Place) -> Iterator[_Fault]:
    if "array" in types_of(place.node) and not {"items", "prefixItems"} & place.node.keys():
        yield Level.INVALID, place.path, "is an array without `items`"


def _reference(place: _Place) -> Iterator[_Fault]:
    if "$ref" in place.node and target(place.root, place.node) is None:
        given = place.node["$ref"]
        shown = excerpt(given, NAME_LENGTH) if isinstance(given, str) else "which is not a string"
        yield Level.INVALID, place.path, f"`$ref` does not resolve inside the schema: {shown}"


def _openness(place: _Place) -> Iterator[_Fault]:
    if "object" not in types_of(place.node) or place.node.get("additionalProperties") is False:
        return
    if properties_of(place.node) or place.is_root:
        yield Level.NON_STRICT_ONLY, place.path, "`additionalProperties` is not false"
    else:
        yield Level.NON_STRICT_ONLY, place.path, "is a free-form object: strict mode takes only listed properties"


def _keywords(place: _Place) -> Iterator[_Fault]:
    for keyword in place.node:
        if keyword in NOT_STRICT or (keyword == "anyOf" and place.is_root):
            where = " at the top level" if keyword == "anyOf" else ""
            yield Level.NON_STRICT_ONLY, place.path, f"strict mode does not take `{keyword}`{where}"


_RULES: Final[tuple[_Rule, ...]] = (
    *(_shape, _type, _containers, _required, _array, _reference),
    *(_openness, _keywords),
)


def _admits_only_empty(root: Schema, node: JSON) -> bool:
    """Return whether nothing but `{}` fits; unions and references are looked through, up to a bound."""
    waiting, unfolded = [node], 0
    while waiting:
        unfolded += 1
        found = target(root, waiting.pop())
        if unfolded > _MAX_UNFOLDED or not isinstance(found, dict):
            return False
        union = members_of(found, "anyOf") or members_of(found, "oneOf")
        if union and "type" not in found:
            waiting.extend(union)
        elif not _is_empty_object(found):
            return False
    return True


def _is_empty_object(node: Schema) -> bool:
    closed = node.get("additionalProperties") is False or node.get("maxProperties") == 0
    open_names = properties_of(node) or required_of(node) or node.get("patternProperties")
    return types_of(node) == ["object"] and closed and not open_names
