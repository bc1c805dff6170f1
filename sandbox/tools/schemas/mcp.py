"""Export and import tools of the Model Context Protocol.

The result of a tool is `structuredContent`, which older revisions of the protocol require to be an object. So a result
of another type is announced, and has to be sent, as `{"result": …}`. Annotations are hints for a user interface, never
permissions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sandbox.errors import SchemaRefused
from sandbox.tools.plain_json import JSON
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.schemas.export_base import Export, read_tool_schema
from sandbox.tools.schemas.foreign import import_schema
from sandbox.tools.schemas.nodes import ROOT, Schema, SchemaFinding, UnreadableSchema, plain_schema, with_children
from sandbox.tools.schemas.validator import validator
from sandbox.tools.tool import NAME_PATTERN

MCP_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
RESULT: Final = "result"
HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_MAX_NAME_LENGTH: Final = 64


def mcp_tool(
    schema: object,
    *,
    output: Mapping[str, JSON] | None = None,
    annotations: Mapping[str, JSON] | None = None,
    title: str | None = None,
) -> Export:
    """Return a tool as a server lists it; `output` is the schema of what it returns."""
    tool = read_tool_schema(schema)
    document: Schema = {"name": tool.name}
    if title is not None:
        document["title"] = title
    document |= {"description": tool.description, "inputSchema": tool.parameters}
    if output is not None:
        document["outputSchema"] = _output(validator(output).schema)
    if annotations is None:
        return Export(document, ())
    known, losses = _annotations(annotations)
    return Export({**document, "annotations": known}, losses)


def import_mcp_tool(tool: object) -> Export:
    """Return a server's tool as `{"name", "description", "parameters"}`, and what became of the rest."""
    try:
        given = plain_schema(tool)
    except UnreadableSchema as fault:
        raise _refusal(fault.finding) from None
    name = given.get("name")
    if not isinstance(name, str) or not MCP_NAME.fullmatch(name):
        shown = excerpt(name, NAME_LENGTH) if isinstance(name, str) else "nothing"
        raise _refusal(SchemaFinding("name", f"{shown} is no name: 1 to 128 letters, digits, `.`, `_` or `-`"))
    description = given.get("description") or f"The {name} tool"
    if not isinstance(description, str):
        raise _refusal(SchemaFinding("description", "is not a string"))
    parameters, losses = import_schema(given.get("inputSchema"))
    ours = _our_name(name)
    renamed = () if ours == name else (SchemaFinding("name", f"{name} is called {ours}"),)
    return Export({"name": ours, "description": description, "parameters": parameters}, (*renamed, *losses))


def _our_name(name: str) -> str:
    """Return a name every provider accepts, as near to the server's as can be."""
    spelled = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    started = spelled if NAME_PATTERN.match(spelled) else f"tool_{spelled.lstrip('_-')}"
    return started[:_MAX_NAME_LENGTH]


def _output(schema: Schema) -> Schema:
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {RESULT: _move(schema, ROOT)}, "required": [RESULT]}


def _move(node: Schema, path: str) -> Schema:
    """Return the schema with its references as they read one property further in."""
    moved = with_children(node, _move, path)
    reference = moved.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = f"#/properties/{RESULT}{reference[1:]}"
    return moved


def _annotations(given: Mapping[str, JSON]) -> tuple[Schema, tuple[SchemaFinding, ...]]:
    wrong = [
        SchemaFinding(f"annotations.{excerpt(name, NAME_LENGTH)}", "is not of the type the protocol says")
        for name, value in given.items()
        if (name in HINTS and not isinstance(value, bool)) or (name == "title" and not isinstance(value, str))
    ]
    if wrong:
        raise _refusal(*wrong)
    known = {name: value for name, value in given.items() if name in HINTS or name == "title"}
    lost = [name for name in given if name not in known]
    return known, tuple(SchemaFinding(f"annotations.{excerpt(name, NAME_LENGTH)}", "is not announced") for name in lost)


def _refusal(*reasons: SchemaFinding) -> SchemaRefused:
    return SchemaRefused(
        "this is no tool of the Model Context Protocol", reasons=reasons, remedy="correct these places"
    )
