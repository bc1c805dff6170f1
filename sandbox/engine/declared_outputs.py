"""What a tool's source says of its outputs: their types, and how much of the value is to be shown."""

from __future__ import annotations

from typing import Final

from sandbox.outputs.budgets import DeclaredOutputs
from sandbox.tools import ToolDefinition

_OF_EXECUTE: Final = "status_message"


def declared_outputs(tool: ToolDefinition) -> DeclaredOutputs:
    """A class with `execute` says something even where it is silent: that it returns the state of things."""
    settings = tool.settings
    value = settings.output_type or (_OF_EXECUTE if tool.call.kind == "execute" else None)
    return DeclaredOutputs(
        value=value,
        stdout=settings.stdout_type or (value if tool.call.kind == "execute" else None),
        stderr=settings.stderr_type,
        return_char_limit=settings.return_char_limit,
        return_token_limit=settings.return_token_limit,
    )
