"""All the shapes a tool's schema is written in, by the name a user gives."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

from sandbox.tools.schemas.anthropic import anthropic
from sandbox.tools.schemas.export_base import Export, read_tool_schema
from sandbox.tools.schemas.mcp import mcp_tool
from sandbox.tools.schemas.openai import openai_chat, openai_responses
from sandbox.tools.schemas.strict import strict_parameters

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Format(StrEnum):
    """The shapes of a schema, by its reader."""

    OPENAI = "openai"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    MCP = "mcp"
    JSON = "json"


def json_schema(schema: object, *, strict: bool = False) -> Export:
    """Return the schema of the arguments as a document of its own; raise `SchemaRefused` if it cannot be strict."""
    tool = read_tool_schema(schema)
    parameters = strict_parameters(tool.parameters) if strict else tool.parameters
    return Export({"$schema": DIALECT, **parameters, "title": tool.name, "description": tool.description}, ())


def export(schema: object, *, to: Format, strict: bool = False) -> Export:
    """Return a tool's schema in one shape, with the losses; a missing strict mode is a loss as well."""
    if to is Format.MCP:
        return mcp_tool(schema)
    return _PROVIDERS[to](schema, strict=strict)


class _Exporter(Protocol):
    def __call__(self, schema: object, *, strict: bool) -> Export: ...


_PROVIDERS: Final[dict[Format, _Exporter]] = {
    Format.OPENAI: openai_chat,
    Format.OPENAI_RESPONSES: openai_responses,
    Format.ANTHROPIC: anthropic,
    Format.JSON: json_schema,
}
