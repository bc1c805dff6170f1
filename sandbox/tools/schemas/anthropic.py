"""Export tools for Anthropic: `input_schema` as it is, or in the language of its strict mode.

Without strict mode the API takes any object schema, except that the top level may not be a union. Strict mode closes
every object, leaves optional properties optional, and takes no bounds on numbers, strings and arrays (but `minItems` 0
and 1), no patterns, and a few formats; other keywords go into the descriptions. Strict mode has neither free-form
objects nor recursion: such a tool is exported without strict mode, and the losses say why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sandbox.tools.schemas.export_base import Export, Relaxation, ToolSchema, read_tool_schema
from sandbox.tools.schemas.health import Level, health
from sandbox.tools.schemas.nodes import (
    ROOT,
    Schema,
    SchemaFinding,
    members_of,
    properties_of,
    recursive_references,
    types_of,
    walk,
    with_children,
)

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
)
UNTAKEN: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType", "contentSchema"}
    | {"maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", "additionalItems"}
    | {"minProperties", "maxProperties", "propertyNames", "patternProperties", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "oneOf"}
)
_NOT_AT_THE_TOP: Final = ("anyOf", "oneOf", "allOf")


def anthropic(schema: object, *, strict: bool = False) -> Export:
    """Return a tool as the messages API takes it."""
    tool = read_tool_schema(schema)
    said: Schema = {"name": tool.name, "description": tool.description}
    loose, losses = _loose(tool.parameters)
    if not strict:
        return Export({**said, "input_schema": loose}, losses)
    parameters, relaxed = _strict(tool)
    against = _against_strict(parameters)
    if against:
        return Export({**said, "input_schema": loose}, (*losses, *against))
    return Export({**said, "input_schema": parameters, "strict": True}, relaxed)


def _loose(parameters: Schema) -> tuple[Schema, tuple[SchemaFinding, ...]]:
    relaxation = Relaxation()
    plain = relaxation.move(parameters, lambda _, path: _NOT_AT_THE_TOP if path == ROOT else (), ROOT)
    return {**plain}, tuple(relaxation.losses)


def _strict(tool: ToolSchema) -> tuple[Schema, tuple[SchemaFinding, ...]]:
    relaxation = Relaxation()
    relaxation.lose_unlisted(tool.parameters)
    arrays = relaxation.tuples_as_arrays(relaxation.one_of_as_any_of(tool.parameters, ROOT), ROOT)
    closed = _close(relaxation.move(arrays, _untaken, ROOT), ROOT)
    return closed, tuple(relaxation.losses)


def _untaken(node: Schema, path: str) -> Iterable[str]:
    keywords = sorted(UNTAKEN & node.keys())
    if path == ROOT:
        keywords += [keyword for keyword in _NOT_AT_THE_TOP if keyword not in keywords]
    if node.get("format") not in FORMATS:
        keywords.append("format")
    if node.get("minItems") not in (0, 1):
        keywords.append("minItems")
    return keywords


def _close(node: Schema, path: str) -> Schema:
    copied = with_children(node, _close, path)
    listed = properties_of(copied) or path == ROOT
    if "object" in types_of(copied) and listed and copied.get("additionalProperties", True) is True:
        copied["additionalProperties"] = False
    return copied


def _against_strict(parameters: Schema) -> tuple[SchemaFinding, ...]:
    found = health(parameters)
    reasons = [
        SchemaFinding(path, "not strict: is an open object")
        for path, node in walk(parameters, ROOT)
        if "object" in types_of(node) and node.get("additionalProperties") is not False
    ]
    if found.level is Level.INVALID:
        reasons += [SchemaFinding(reason.path, f"not strict: {reason.message}") for reason in found.reasons]
    for path, node in walk(parameters, ROOT):
        reasons += [SchemaFinding(path, f"not strict: {reason}") for reason in _unsayable(node)]
    if recursive_references(parameters):
        reasons.append(SchemaFinding(ROOT, "not strict: the schema is recursive"))
    return tuple(reasons)


def _unsayable(node: Schema) -> Iterator[str]:
    if any(isinstance(value, dict | list) for value in members_of(node, "enum")):
        yield "an enum holds values that are objects or arrays"
    if any(isinstance(member, dict) and "$ref" in member for member in members_of(node, "allOf")):
        yield "an `allOf` holds a reference"
