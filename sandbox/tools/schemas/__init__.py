"""JSON schemas of tools: how fit they are, their strict form, other people's shapes of them, and checks against them.

Everything is a plain function of values, for schemas of any origin: no file, no address, no clock.

    any schema ─ given ─ plain copy ─┬─ health ─── level and reasons
                                     ├─ strict ─── what strict mode takes ··· arguments ─ filled_nulls ─ arguments
                                     ├─ exports ── openai, anthropic, mcp, json: the document, and what it lost
                                     └─ validator ─ problems of documents
    a stranger's schema ─ foreign, mcp ─ a schema like ours
"""

from sandbox.tools.schemas.anthropic import anthropic
from sandbox.tools.schemas.export_base import Export
from sandbox.tools.schemas.exports import Format, export, json_schema
from sandbox.tools.schemas.foreign import Import, import_schema
from sandbox.tools.schemas.health import Health, Level, health
from sandbox.tools.schemas.mcp import import_mcp_tool, mcp_tool
from sandbox.tools.schemas.nodes import SchemaFinding
from sandbox.tools.schemas.openai import openai_chat, openai_responses
from sandbox.tools.schemas.strict import strict_form, without_filled_nulls
from sandbox.tools.schemas.validator import SchemaValidator, validator

__all__ = [
    "Export",
    "Format",
    "Health",
    "Import",
    "Level",
    "SchemaFinding",
    "SchemaValidator",
    "anthropic",
    "export",
    "health",
    "import_mcp_tool",
    "import_schema",
    "json_schema",
    "mcp_tool",
    "openai_chat",
    "openai_responses",
    "strict_form",
    "validator",
    "without_filled_nulls",
]
