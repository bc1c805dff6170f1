"""The published rules of providers for tools, written once more, apart from the code that exports tools.

Each function yields the faults that a provider would refuse. OpenAI: function calling and structured outputs (supported
schemas); Anthropic: tool use and structured outputs (JSON Schema limitations); MCP: the tools page of the
specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

OPENAI_TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
OPENAI_KEYWORDS = {
    *("type", "description", "title", "properties", "required", "additionalProperties", "items", "anyOf"),
    *("enum", "const", "$ref", "$defs", "definitions", "pattern", "format", "minItems", "maxItems"),
    *("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
}
OPENAI_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
ANTHROPIC_KEYWORDS = {
    *("type", "description", "title", "properties", "required", "additionalProperties", "items", "anyOf", "allOf"),
    *("enum", "const", "$ref", "$defs", "definitions", "format", "minItems", "default", "examples"),
}
ANTHROPIC_FORMATS = {*OPENAI_FORMATS, "uri"}
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema in a schema."""
    yield schema
    for keyword in ("properties", "$defs", "definitions", "patternProperties"):
        for member in schema.get(keyword, {}).values():
            yield from nodes(member)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for member in schema.get(keyword, []):
            yield from nodes(member)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes(schema[keyword])


def openai_faults(function: dict[str, Any]) -> Iterator[str]:
    """Yield the faults that OpenAI refuses in any function."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function["name"]):
        yield "name"
    if function.keys() - {"type", "name", "description", "parameters", "strict"}:
        yield "unknown member"
    if function["parameters"].get("type") != "object":
        yield "top level is no object"
    if function["parameters"].keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}:
        yield "union at the top level"
    for node in nodes(function["parameters"]):
        if "array" in _types(node) and "items" not in node:
            yield "array without items"
    if function.get("strict"):
        yield from _openai_strict_faults(function["parameters"])


def _openai_strict_faults(parameters: dict[str, Any]) -> Iterator[str]:
    listed = list(nodes(parameters))
    for node in listed:
        yield from (f"keyword {keyword}" for keyword in node.keys() - OPENAI_KEYWORDS)
        yield from (f"type {name}" for name in _types(node) - OPENAI_TYPES)
        if not node.keys() & {"type", "anyOf", "$ref"}:
            yield f"no type: {node}"
        if "object" in _types(node) and node.get("additionalProperties") is not False:
            yield "open object"
        if "object" in _types(node) and set(node.get("required", [])) != set(node.get("properties", {})):
            yield "optional property"
        if "$ref" in node and len(node) > 1:
            yield "members next to $ref"
        if node.get("format", "date") not in OPENAI_FORMATS:
            yield "format"
    if sum(len(node.get("properties", {})) for node in listed) > 5000:
        yield "properties"
    if sum(len(node.get("enum", [])) for node in listed) > 1000:
        yield "enum values"
    if _depth(parameters) > 10:
        yield "depth"


def anthropic_faults(tool: dict[str, Any]) -> Iterator[str]:
    """Yield the faults that Anthropic refuses in any tool."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]):
        yield "name"
    if tool.keys() - {"name", "description", "input_schema", "strict"}:
        yield "unknown member"
    if tool["input_schema"].get("type") != "object":
        yield "top level is no object"
    if tool["input_schema"].keys() & {"anyOf", "oneOf", "allOf"}:
        yield "union at the top level"
    for node in nodes(tool["input_schema"]) if tool.get("strict") else ():
        yield from (f"keyword {keyword}" for keyword in node.keys() - ANTHROPIC_KEYWORDS)
        if "object" in _types(node) and node.get("additionalProperties") is not False:
            yield "open object"
        if node.get("format", "date") not in ANTHROPIC_FORMATS:
            yield "format"
        if node.get("minItems", 0) not in (0, 1):
            yield "minItems"


def mcp_faults(tool: dict[str, Any]) -> Iterator[str]:
    """Yield the faults that the Model Context Protocol does not allow in a tool."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool["name"]):
        yield "name"
    if tool.keys() - {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"}:
        yield "unknown member"
    if tool["inputSchema"].get("type") != "object":
        yield "inputSchema is no object"
    if tool.get("outputSchema", {"type": "object"}).get("type") != "object":
        yield "outputSchema is no object"
    for name, value in tool.get("annotations", {}).items():
        if not (isinstance(value, bool) if name in HINTS else name == "title" and isinstance(value, str)):
            yield f"annotation {name}"


def _types(node: dict[str, Any]) -> set[str]:
    given = node.get("type", [])
    return set(given) if isinstance(given, list) else {given}


def _depth(schema: Any) -> int:
    inner = [member for member in schema.values() if isinstance(member, dict)] if isinstance(schema, dict) else []
    lists = [
        item for member in schema.values() if isinstance(member, list) for item in member if isinstance(item, dict)
    ]
    below = max((_depth(member) for member in [*inner, *lists]), default=0)
    return below + ("object" in _types(schema) if isinstance(schema.get("type", ""), str | list) else 0)
