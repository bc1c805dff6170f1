"""The strict form of a schema, and the way back from strict arguments.

Strict mode has no optional properties: every property is required, every object closed. A property that could be left
out becomes nullable, at every depth, and null then means "use the default". `without_filled_nulls` removes these nulls.

An object that lists properties is closed even if it took others too: this narrows what a model may say, never what it
can reach. A free-form object or a map with typed values cannot be closed without losing its purpose, and so has no
strict form; neither have the keywords that `health` reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sandbox.errors import SchemaRefused
from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.health import Level, health
from sandbox.tools.schemas.nodes import (
    ANNOTATIONS,
    ROOT,
    UNIONS,
    Schema,
    SchemaFinding,
    UnreadableSchema,
    is_tool,
    members_of,
    parameters_of,
    plain_schema,
    properties_of,
    required_of,
    target,
    types_of,
    with_children,
)

_NULL: Final = "null"


def strict_form(schema: object) -> Schema:
    """Return a strict copy of a tool's schema, or of a schema of parameters; raise `SchemaRefused` without one."""
    try:
        given = plain_schema(schema)
        parameters = strict_parameters(parameters_of(given))
    except UnreadableSchema as fault:
        raise _refusal((fault.finding,)) from None
    if is_tool(given):
        return {**given, "parameters": parameters, "strict": True}
    return {**parameters, "strict": True}


def strict_parameters(parameters: Schema) -> Schema:
    """Return the strict form of the parameters' schema alone, or `SchemaRefused`."""
    before = health(parameters)
    if before.level is Level.INVALID:
        raise _refusal(before.reasons)
    strict = _strict(_with_properties(parameters), ROOT)
    after = health(strict)
    if after.level is not Level.STRICT_COMPLIANT:
        raise _refusal(after.reasons)
    return strict


def _refusal(reasons: Iterable[SchemaFinding]) -> SchemaRefused:
    return SchemaRefused(
        "the schema has no strict form",
        reasons=tuple(reasons),
        remedy="declare what these places hold, or use the schema without strict mode",
    )


def _with_properties(parameters: Schema) -> Schema:
    """Return a tool that lists no parameters and does not say that it takes others takes none."""
    if parameters.get("additionalProperties", False) is not False:
        return parameters
    return {"type": "object", "properties": {}, **parameters, "additionalProperties": False}


def _strict(node: Schema, path: str) -> Schema:
    strict = _typed(with_children(node, _strict, path))
    if "object" not in types_of(strict):
        return strict
    if properties_of(strict) and strict.get("additionalProperties", True) is True:
        strict["additionalProperties"] = False
    if strict.get("additionalProperties") is not False:
        return strict
    required = required_of(strict)
    listed = {
        name: member if name in required or not isinstance(member, dict) else _nullable(member)
        for name, member in properties_of(strict).items()
    }
    return {**strict, "properties": {**listed}, "required": [*listed]}


def _typed(node: Schema) -> Schema:
    """Return a copy with the `type` that strict mode requires, even if the values or the members imply it."""
    if "type" in node or "$ref" in node or any(keyword in node for keyword in UNIONS):
        return {**node}
    values = [node["const"]] if "const" in node else members_of(node, "enum")
    types = types_of(node) or list(dict.fromkeys(_type_name(value) for value in values))
    return {"type": types[0] if len(types) == 1 else [*types], **node} if types else {**node}


def _type_name(value: JSON) -> str:
    if value is None or isinstance(value, bool):
        return _NULL if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _nullable(node: Schema) -> Schema:
    """Return the node, with null as one more value, named last and once."""
    if "anyOf" in node and not {"type", "enum", "const", "$ref"} & node.keys():
        return {**node, "anyOf": [*_without_null(members_of(node, "anyOf")), {"type": _NULL}]}
    if "type" not in node or "$ref" in node or any(keyword in node for keyword in UNIONS):
        return _alternative(node)
    return _with_null(node)


def _alternative(node: Schema) -> Schema:
    """Return the node or null, as two members of a union; what is said about the property stays outside."""
    said = {keyword: value for keyword, value in node.items() if keyword in ANNOTATIONS}
    rest = {keyword: value for keyword, value in node.items() if keyword not in ANNOTATIONS}
    return {**said, "anyOf": [rest, {"type": _NULL}]}


def _with_null(node: Schema) -> Schema:
    types: list[JSON] = [*(name for name in types_of(node) if name != _NULL), _NULL]
    widened: Schema = {**node, "type": types if len(types) > 1 else _NULL}
    if "enum" in node:
        widened["enum"] = [*(value for value in members_of(node, "enum") if value is not None), None]
    if node.get("const") is not None:
        widened["enum"] = [widened.pop("const"), None]
    return widened


def _without_null(members: list[JSON]) -> list[JSON]:
    """Return the members of a union that are not null, without null among the other values of a member."""
    kept = [_narrowed(member) if isinstance(member, dict) else member for member in members]
    return [member for member in kept if member is not None]


def _narrowed(member: Schema) -> Schema | None:
    types = types_of(member)
    if _NULL not in types:
        return member
    others: list[JSON] = [name for name in types if name != _NULL]
    if not others:
        return None
    narrowed: Schema = {**member, "type": others[0] if len(others) == 1 else others}
    if "enum" in member:
        narrowed["enum"] = [value for value in members_of(member, "enum") if value is not None]
    return narrowed


_MAX_DEPTH: Final = 100
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
    """Return a copy of the arguments without the nulls that stand for "use the default"; the schema is only read."""
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
        if not isinstance(found, dict) or not isinstance(value, dict | list) or depth > _MAX_DEPTH:
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
        if not isinstance(found, dict) or depth > _MAX_DEPTH:
            return False
        key = (id(value), id(found))
        if key not in self._fitting:
            self._fitting[key] = False  # a reference back to itself fits nothing
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
