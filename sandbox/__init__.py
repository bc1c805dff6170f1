"""Sandbox runs tools, pieces of Python source, in boxes.

The public names, nothing else. Each lives in the module that `_HOMES` gives it and is imported when it is first asked
for, so that `import sandbox` costs a program nothing it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sandbox.authoring import (
        BaseTool,
        OutputType,
        Tool,
        ToolResult,
        method_metadata,
        openapi_schema,
        tool,
        tool_metadata,
    )
    from sandbox.client import AsyncSandbox, Sandbox
    from sandbox.errors import (
        ArtifactMissing,
        ArtifactsUnavailable,
        BackendUnavailable,
        BoxLost,
        BuildFailed,
        CallFailed,
        EngineClosed,
        EnvironmentTampered,
        EnvironmentUnavailable,
        IndexRefused,
        IndexUnavailable,
        IsolationUnavailable,
        PolicyError,
        ProtocolError,
        RequirementRefused,
        ResolutionFailed,
        SandboxError,
        SourceError,
        SpecError,
    )
    from sandbox.outcome import Outcome, Status
    from sandbox.outputs.artifacts.store import ArtifactStore, Retention
    from sandbox.policy import Policy
    from sandbox.streaming import Finished, Printed, Progress
    from sandbox.tools.check import CheckReport

__all__ = [
    "ArtifactMissing",
    "ArtifactStore",
    "ArtifactsUnavailable",
    "AsyncSandbox",
    "BackendUnavailable",
    "BaseTool",
    "BoxLost",
    "BuildFailed",
    "CallFailed",
    "CheckReport",
    "EngineClosed",
    "EnvironmentTampered",
    "EnvironmentUnavailable",
    "Finished",
    "IndexRefused",
    "IndexUnavailable",
    "IsolationUnavailable",
    "Outcome",
    "OutputType",
    "Policy",
    "PolicyError",
    "Printed",
    "Progress",
    "ProtocolError",
    "RequirementRefused",
    "ResolutionFailed",
    "Retention",
    "Sandbox",
    "SandboxError",
    "SourceError",
    "SpecError",
    "Status",
    "Tool",
    "ToolResult",
    "method_metadata",
    "openapi_schema",
    "tool",
    "tool_metadata",
]

_HOMES: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "BaseTool",
            "OutputType",
            "Tool",
            "ToolResult",
            "method_metadata",
            "openapi_schema",
            "tool",
            "tool_metadata",
        ),
        "sandbox.authoring",
    ),
    "AsyncSandbox": "sandbox.client",
    "Sandbox": "sandbox.client",
    **dict.fromkeys(
        (
            "ArtifactMissing",
            "ArtifactsUnavailable",
            "BackendUnavailable",
            "BoxLost",
            "BuildFailed",
            "CallFailed",
            "EngineClosed",
            "EnvironmentTampered",
            "EnvironmentUnavailable",
            "IndexRefused",
            "IndexUnavailable",
            "IsolationUnavailable",
            "PolicyError",
            "ProtocolError",
            "RequirementRefused",
            "ResolutionFailed",
            "SandboxError",
            "SourceError",
            "SpecError",
        ),
        "sandbox.errors",
    ),
    "ArtifactStore": "sandbox.outputs.artifacts.store",
    "Retention": "sandbox.outputs.artifacts.store",
    "CheckReport": "sandbox.tools.check",
    "Outcome": "sandbox.outcome",
    "Status": "sandbox.outcome",
    "Policy": "sandbox.policy",
    "Finished": "sandbox.streaming",
    "Printed": "sandbox.streaming",
    "Progress": "sandbox.streaming",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
