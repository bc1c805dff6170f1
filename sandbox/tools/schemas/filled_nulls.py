"""From strict arguments back to those of a call: a null that only fills the place of an optional property goes.

The schema is the tool's own, not its strict form. Arguments follow it down as far as it describes them; of a union the
first member is taken that the value fits, judged by types, constants and the names of properties at every depth. What
the schema does not describe is left as it is, for the check of the arguments to speak about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.input import is_tool
from sandbox.tools.schemas.nodes import Schema, members_of, properties_of, required_of, types_of
from sandbox.tools.schemas.references import target

_DEEPEST: Final = 100
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def without_filled_nulls(arguments: Mapping[str, JSON], schema: Schema) -> dict[str, JSON]:
    """A copy of the arguments without the nulls that stand for "use the default"; the schema is only read."""
    parameters = schema["parameters"] if is_tool(schema) else schema
    if not isinstance(parameters, dict):
        return dict(arguments)
    return _Reader(parameters).object(dict(arguments), parameters, depth=0)


class _Reader:
    """Follows one schema; what fits what is remembered, since nested unions ask for the same again and again."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._fitting: dict[tuple[int, int], bool] = {}

    def value(self, value: JSON, node: JSON, *, depth: int) -> JSON:
        found = target(self._root, node)
        if not isinstance(found, dict) or not isinstance(value, dict | list) or depth > _DEEPEST:
            return value
        union = members_of(found, "anyOf") or members_of(found, "oneOf")
        if union:
            member = next((each for each in union if self._fits(value, each, depth=depth)), None)
            return self.value(value, member, depth=depth + 1)
        if isinstance(value, dict):
            return self.object(value, found, depth=depth)
        return self._array(value, found, depth=depth)

    def object(self, value: dict[str, JSON], node: Schema, *, depth: int) -> dict[str, JSON]:
        listed, required = properties_of(node), set(required_of(node))
        others = node.get("additionalProperties")
        return {
            name: self.value(member, listed.get(name, others), depth=depth + 1)
            for name, member in value.items()
            if member is not None or name not in listed or name in required
        }

    def _array(self, value: list[JSON], node: Schema, *, depth: int) -> list[JSON]:
        leading = members_of(node, "prefixItems")
        return [
            self.value(item, leading[position] if position < len(leading) else node.get("items"), depth=depth + 1)
            for position, item in enumerate(value)
        ]

    def _fits(self, value: JSON, node: JSON, *, depth: int) -> bool:
        found = target(self._root, node)
        if not isinstance(found, dict) or depth > _DEEPEST:
            return False
        key = (id(value), id(found))
        if key not in self._fitting:
            self._fitting[key] = False  # what comes back to itself fits nothing
            self._fitting[key] = self._fits_node(value, found, depth=depth)
        return self._fitting[key]

    def _fits_node(self, value: JSON, node: Schema, *, depth: int) -> bool:
        union = members_of(node, "anyOf") or members_of(node, "oneOf")
        if union and not any(self._fits(value, member, depth=depth + 1) for member in union):
            return False
        if not _has_type(value, node) or not _is_listed(value, node):
            return False
        if isinstance(value, dict):
            return self._fits_object(value, node, depth=depth)
        items = node.get("items")
        if isinstance(value, list) and isinstance(items, dict):
            return all(self._fits(item, items, depth=depth + 1) for item in value)
        return True

    def _fits_object(self, value: dict[str, JSON], node: Schema, *, depth: int) -> bool:
        listed, required = properties_of(node), set(required_of(node))
        if not required <= value.keys():
            return False
        if node.get("additionalProperties", False) is False and listed and not value.keys() <= listed.keys():
            return False
        return all(
            (value[name] is None and name not in required) or self._fits(value[name], listed[name], depth=depth + 1)
            for name in value.keys() & listed.keys()
        )


def _has_type(value: JSON, node: Schema) -> bool:
    types = types_of(node)
    kinds = tuple(kind for name in types for kind in _KINDS[name])
    if isinstance(value, bool):
        return not types or bool in kinds
    return not types or isinstance(value, kinds)


def _is_listed(value: JSON, node: Schema) -> bool:
    values = [node["const"]] if "const" in node else node.get("enum")
    return not isinstance(values, list) or value in values
