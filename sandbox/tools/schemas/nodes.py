"""How JSON schemas nest: which keywords of a node hold further schemas, and copies with those schemas changed.

Only what stands in the place of a schema is looked at as one, so a property that happens to be called `$ref` or `type`
is a property. What is in such a place need not be a schema: whoever walks over strangers' schemas has to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.issues import under

Schema: TypeAlias = dict[str, JSON]
Change: TypeAlias = Callable[[Schema, str], Schema]

UNIONS: Final = ("anyOf", "oneOf", "allOf")
LISTS: Final = (*UNIONS, "prefixItems")
DEFINITIONS: Final = ("$defs", "definitions")
NAMED: Final = ("properties", "patternProperties", "dependentSchemas", *DEFINITIONS)
SINGLE: Final = (
    *("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    *("additionalItems", "contentSchema", "not", "if", "then", "else"),
)
TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)


def children(node: Schema, path: str) -> Iterator[tuple[str, JSON]]:
    """Everything that stands where a schema belongs, directly below the node, with its path."""
    for keyword, value in node.items():
        place = under(path, keyword)
        if keyword in SINGLE:
            yield place, value
        elif keyword in LISTS and isinstance(value, list):
            yield from ((under(place, position), member) for position, member in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from ((under(place, name), member) for name, member in value.items())


def with_children(node: Schema, change: Change, path: str) -> Schema:
    """A copy of the node in which `change` has been applied to every schema directly below it."""

    def changed(value: JSON, place: str) -> JSON:
        return change(value, place) if isinstance(value, dict) else value

    copied: Schema = {}
    for keyword, value in node.items():
        place = under(path, keyword)
        if keyword in SINGLE:
            copied[keyword] = changed(value, place)
        elif keyword in LISTS and isinstance(value, list):
            copied[keyword] = [changed(member, under(place, position)) for position, member in enumerate(value)]
        elif keyword in NAMED and isinstance(value, dict):
            copied[keyword] = {name: changed(member, under(place, name)) for name, member in value.items()}
        else:
            copied[keyword] = value
    return copied


def walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every node of a schema, outer ones first."""
    waiting: list[tuple[str, JSON]] = [(path, schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            yield place, node
            waiting.extend(reversed(list(children(node, place))))


def types_of(node: Schema) -> list[str]:
    """The types a node names, each once; a node that says `properties` or `items` alone means an object or an array."""
    given = node.get("type")
    if given is None:
        return _implied_types(node)
    return list(dict.fromkeys(name for name in (given if isinstance(given, list) else [given]) if name in TYPES))


def _implied_types(node: Schema) -> list[str]:
    if "$ref" in node or any(keyword in node for keyword in UNIONS):
        return []
    if "properties" in node or "additionalProperties" in node:
        return ["object"]
    return ["array"] if "items" in node or "prefixItems" in node else []


def properties_of(node: Schema) -> Schema:
    """The properties a node lists."""
    given = node.get("properties")
    return given if isinstance(given, dict) else {}


def required_of(node: Schema) -> list[str]:
    """The names a node requires."""
    given = node.get("required")
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def members_of(node: Schema, keyword: str) -> list[JSON]:
    """The schemas in a list of them."""
    given = node.get(keyword)
    return given if isinstance(given, list) else []
