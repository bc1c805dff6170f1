"""How many comparisons a validator makes at most, counted before it makes them.

A validator follows references and tries every member of a union, so a small schema can ask for more comparisons than
can ever be made: each level of `anyOf: [A, A]` doubles them. The count multiplies in the same way, but every pair of a
value and a node is looked at once.

A text compared with a pattern counts as many comparisons as it has characters: patterns do not hang, yet a large one
takes its time for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.issues import ROOT
from sandbox.tools.schemas.nodes import UNIONS, Schema, children, members_of
from sandbox.tools.schemas.references import referred

_COSTLY: Final = frozenset({"$ref", "$dynamicRef", "pattern", "patternProperties"})
_HERE: Final = ("not", "if", "then", "else")
_OF_EVERY_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")
_OF_EVERY_ITEM: Final = ("items", "contains", "unevaluatedItems", "additionalItems")


class TooMuchEffort(Exception):
    """The document and the schema take too long to compare."""


def spend_at_most(comparisons: int, *, schema: Schema, document: JSON) -> None:
    """Raise `TooMuchEffort` if comparing the document with the schema could take more comparisons."""
    try:
        _Count(schema, comparisons).of(document, schema)
    except RecursionError:
        raise TooMuchEffort from None


def can_be_costly(schema: JSON) -> bool:
    """Whether comparisons can multiply, for which parts of the schema have to be used again, or be long."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if _COSTLY & node.keys():
                return True
            waiting.extend(child for _, child in children(node, ROOT))
    return False


class _Count:
    def __init__(self, root: Schema, most: int) -> None:
        self._root = root
        self._most = most
        self._known: dict[tuple[int, int], int] = {}

    def of(self, value: JSON, node: JSON) -> int:
        """The comparisons of one value with one node; a node that only leads back to itself makes none."""
        if not isinstance(node, dict):
            return 1
        key = (id(value), id(node))
        if key not in self._known:
            self._known[key] = 0
            pairs = [*((value, each) for each in self._here(node)), *_inside(value, node)]
            self._known[key] = 1 + _characters(value, node) + sum(self.of(part, each) for part, each in pairs)
        if self._known[key] > self._most or len(self._known) > self._most:
            raise TooMuchEffort
        return self._known[key]

    def _here(self, node: Schema) -> Iterator[JSON]:
        for keyword in UNIONS:
            yield from members_of(node, keyword)
        yield from (node[keyword] for keyword in _HERE if keyword in node)
        dependent = node.get("dependentSchemas")
        if isinstance(dependent, dict):
            yield from dependent.values()
        if "$ref" in node:
            yield referred(self._root, node["$ref"])


def _characters(value: JSON, node: Schema) -> int:
    """The characters that are compared with the patterns of the node itself."""
    if isinstance(value, str):
        return len(value) if "pattern" in node else 0
    patterns = node.get("patternProperties")
    if isinstance(value, dict) and isinstance(patterns, dict):
        return len(patterns) * sum(len(name) for name in value)
    return 0


def _inside(value: JSON, node: Schema) -> Iterator[tuple[JSON, JSON]]:
    """The parts of the value, with the nodes they are compared with."""
    if isinstance(value, dict):
        yield from _members(value, node)
    elif isinstance(value, list):
        leading = members_of(node, "prefixItems")
        yield from zip(value, leading, strict=False)
        yield from ((item, node[keyword]) for keyword in _OF_EVERY_ITEM if keyword in node for item in value)


def _members(value: dict[str, JSON], node: Schema) -> Iterator[tuple[JSON, JSON]]:
    for keyword in ("properties", "patternProperties"):
        listed = node.get(keyword)
        if isinstance(listed, dict) and keyword == "properties":
            yield from ((value[name], member) for name, member in listed.items() if name in value)
        elif isinstance(listed, dict):
            yield from ((part, member) for member in listed.values() for part in value.values())
    if "propertyNames" in node:
        yield from ((name, node["propertyNames"]) for name in value)
    yield from ((part, node[keyword]) for keyword in _OF_EVERY_MEMBER if keyword in node for part in value.values())
