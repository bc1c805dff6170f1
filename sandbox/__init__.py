"""Sandbox runs tools, pieces of Python source, in boxes.

This module holds the public names and nothing else. Each name is imported from its home when it is first used, so that
`import sandbox` costs a program nothing that it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

# Type checkers read the imports, and the program reads `_HOMES`; a test compares the two.
if TYPE_CHECKING:
    from sandbox.authoring import BaseTool as BaseTool
    from sandbox.authoring import OutputType as OutputType
    from sandbox.authoring import Tool as Tool
    from sandbox.authoring import ToolResult as ToolResult
    from sandbox.authoring import method_metadata as method_metadata
    from sandbox.authoring import openapi_schema as openapi_schema
    from sandbox.authoring import tool as tool
    from sandbox.authoring import tool_metadata as tool_metadata
    from sandbox.client.client import AsyncSandbox as AsyncSandbox
    from sandbox.client.client import Sandbox as Sandbox
    from sandbox.client.stream import Event as Event
    from sandbox.client.stream import Finished as Finished
    from sandbox.client.stream import Printed as Printed
    from sandbox.client.stream import Progress as Progress
    from sandbox.doctor import Checkup as Checkup
    from sandbox.environments import Environment as Environment
    from sandbox.environments.lock import Lock as Lock
    from sandbox.errors import ArtifactMissing as ArtifactMissing
    from sandbox.errors import ArtifactsUnavailable as ArtifactsUnavailable
    from sandbox.errors import BackendUnavailable as BackendUnavailable
    from sandbox.errors import BatchCancelled as BatchCancelled
    from sandbox.errors import BoxLost as BoxLost
    from sandbox.errors import BuildFailed as BuildFailed
    from sandbox.errors import CallCancelled as CallCancelled
    from sandbox.errors import CallFailed as CallFailed
    from sandbox.errors import CallNotStarted as CallNotStarted
    from sandbox.errors import EngineClosed as EngineClosed
    from sandbox.errors import EnvironmentTampered as EnvironmentTampered
    from sandbox.errors import EnvironmentUnavailable as EnvironmentUnavailable
    from sandbox.errors import HostExhausted as HostExhausted
    from sandbox.errors import IndexRefused as IndexRefused
    from sandbox.errors import IndexUnavailable as IndexUnavailable
    from sandbox.errors import IsolationUnavailable as IsolationUnavailable
    from sandbox.errors import PolicyError as PolicyError
    from sandbox.errors import ProtocolError as ProtocolError
    from sandbox.errors import RequirementRefused as RequirementRefused
    from sandbox.errors import ResolutionFailed as ResolutionFailed
    from sandbox.errors import SandboxError as SandboxError
    from sandbox.errors import SchemaRefused as SchemaRefused
    from sandbox.errors import SourceError as SourceError
    from sandbox.errors import SpecError as SpecError
    from sandbox.errors import StoreUnwritable as StoreUnwritable
    from sandbox.outcome import Outcome as Outcome
    from sandbox.outcome import Status as Status
    from sandbox.outputs.artifacts.store import ArtifactStore as ArtifactStore
    from sandbox.outputs.artifacts.store import Retention as Retention
    from sandbox.policy import Policy as Policy
    from sandbox.spec import CallFields as CallFields
    from sandbox.tools.check import CheckReport as CheckReport

_HOMES: Final = {
    "ArtifactMissing": "sandbox.errors",
    "ArtifactStore": "sandbox.outputs.artifacts.store",
    "ArtifactsUnavailable": "sandbox.errors",
    "AsyncSandbox": "sandbox.client.client",
    "BackendUnavailable": "sandbox.errors",
    "BaseTool": "sandbox.authoring",
    "BatchCancelled": "sandbox.errors",
    "BoxLost": "sandbox.errors",
    "BuildFailed": "sandbox.errors",
    "CallCancelled": "sandbox.errors",
    "CallFailed": "sandbox.errors",
    "CallFields": "sandbox.spec",
    "CallNotStarted": "sandbox.errors",
    "CheckReport": "sandbox.tools.check",
    "Checkup": "sandbox.doctor",
    "EngineClosed": "sandbox.errors",
    "Environment": "sandbox.environments",
    "EnvironmentTampered": "sandbox.errors",
    "EnvironmentUnavailable": "sandbox.errors",
    "Event": "sandbox.client.stream",
    "Finished": "sandbox.client.stream",
    "HostExhausted": "sandbox.errors",
    "IndexRefused": "sandbox.errors",
    "IndexUnavailable": "sandbox.errors",
    "IsolationUnavailable": "sandbox.errors",
    "Lock": "sandbox.environments.lock",
    "Outcome": "sandbox.outcome",
    "OutputType": "sandbox.authoring",
    "Policy": "sandbox.policy",
    "PolicyError": "sandbox.errors",
    "Printed": "sandbox.client.stream",
    "Progress": "sandbox.client.stream",
    "ProtocolError": "sandbox.errors",
    "RequirementRefused": "sandbox.errors",
    "ResolutionFailed": "sandbox.errors",
    "Retention": "sandbox.outputs.artifacts.store",
    "Sandbox": "sandbox.client.client",
    "SandboxError": "sandbox.errors",
    "SchemaRefused": "sandbox.errors",
    "SourceError": "sandbox.errors",
    "SpecError": "sandbox.errors",
    "Status": "sandbox.outcome",
    "StoreUnwritable": "sandbox.errors",
    "Tool": "sandbox.authoring",
    "ToolResult": "sandbox.authoring",
    "method_metadata": "sandbox.authoring",
    "openapi_schema": "sandbox.authoring",
    "tool": "sandbox.authoring",
    "tool_metadata": "sandbox.authoring",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605  (one list of names is enough; a test compares both)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_HOMES[name]), name)
    except AttributeError as error:
        # `from sandbox import` would take an AttributeError for a name that does not exist.
        raise ImportError(f"{name} cannot be imported: {error}", name=_HOMES[name]) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
