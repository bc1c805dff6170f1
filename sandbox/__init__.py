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
    from sandbox.client.client import AsyncSandbox, Sandbox
    from sandbox.client.stream import Event, Finished, Printed, Progress
    from sandbox.doctor import Checkup
    from sandbox.environments import Environment
    from sandbox.environments.lock import Lock
    from sandbox.errors import (
        ArtifactMissing,
        ArtifactsUnavailable,
        BackendUnavailable,
        BoxLost,
        BuildFailed,
        CallFailed,
        CallNotStarted,
        EngineClosed,
        EnvironmentTampered,
        EnvironmentUnavailable,
        HostExhausted,
        IndexRefused,
        IndexUnavailable,
        IsolationUnavailable,
        PolicyError,
        ProtocolError,
        RequirementRefused,
        ResolutionFailed,
        SandboxError,
        SchemaRefused,
        SourceError,
        SpecError,
        StoreUnwritable,
    )
    from sandbox.outcome import Outcome, Status
    from sandbox.outputs.artifacts.store import ArtifactStore, Retention
    from sandbox.policy import Policy
    from sandbox.spec import CallFields
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
    "CallFields",
    "CallNotStarted",
    "CheckReport",
    "Checkup",
    "EngineClosed",
    "Environment",
    "EnvironmentTampered",
    "EnvironmentUnavailable",
    "Event",
    "Finished",
    "HostExhausted",
    "IndexRefused",
    "IndexUnavailable",
    "IsolationUnavailable",
    "Lock",
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
    "SchemaRefused",
    "SourceError",
    "SpecError",
    "Status",
    "StoreUnwritable",
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
    "AsyncSandbox": "sandbox.client.client",
    "Sandbox": "sandbox.client.client",
    "Environment": "sandbox.environments",
    "Lock": "sandbox.environments.lock",
    **dict.fromkeys(
        (
            "ArtifactMissing",
            "ArtifactsUnavailable",
            "BackendUnavailable",
            "BoxLost",
            "BuildFailed",
            "CallFailed",
            "CallNotStarted",
            "EngineClosed",
            "EnvironmentTampered",
            "EnvironmentUnavailable",
            "HostExhausted",
            "IndexRefused",
            "IndexUnavailable",
            "IsolationUnavailable",
            "PolicyError",
            "ProtocolError",
            "RequirementRefused",
            "ResolutionFailed",
            "SandboxError",
            "SchemaRefused",
            "SourceError",
            "SpecError",
            "StoreUnwritable",
        ),
        "sandbox.errors",
    ),
    "ArtifactStore": "sandbox.outputs.artifacts.store",
    "Retention": "sandbox.outputs.artifacts.store",
    "CheckReport": "sandbox.tools.check",
    "Checkup": "sandbox.doctor",
    "Outcome": "sandbox.outcome",
    "Status": "sandbox.outcome",
    "Policy": "sandbox.policy",
    "CallFields": "sandbox.spec",
    "Event": "sandbox.client.stream",
    "Finished": "sandbox.client.stream",
    "Printed": "sandbox.client.stream",
    "Progress": "sandbox.client.stream",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_HOMES[name]), name)
    except AttributeError as error:  # which `from sandbox import` would take for a name that there is not
        raise ImportError(f"{name} cannot be imported: {error}", name=_HOMES[name]) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
