"""What was read from a tool's source, as plain values.

A `Tool` says everything a call needs to know and holds nothing that was executed. `text` is what the box gets as its
module file: newlines are `\\n`, and an encoding line says UTF-8 whatever it said before, so that writing the text as
UTF-8 and importing it there gives exactly the program that was read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from sandbox.tools.scope import NO_NAMES, Scope
from sandbox.tools.tool_settings import NO_SETTINGS, ToolSettings

CallKind = Literal["function", "method", "execute", "module", "handler"]

INJECTED: Final = ("agent_state", "agent_id", "ctx", "client")
"""Parameters that the call fills in by itself; no model ever sees them."""


class ParameterKind(StrEnum):
    """How a parameter takes its argument."""

    POSITIONAL_ONLY = "positional_only"
    POSITIONAL_OR_KEYWORD = "positional_or_keyword"
    KEYWORD_ONLY = "keyword_only"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; required when it has no default and its annotation does not admit None."""

    name: str
    kind: ParameterKind
    annotation: str | None
    required: bool
    has_default: bool


@dataclass(frozen=True, slots=True)
class CallForm:
    """How the tool is called inside the box, once its source is loaded.

    function    `names` is `(function,)`: call it
    method      `(Class, method)`: make one of the class without arguments, call its method
    execute     `(Class,)`: the same, with `validate_args` and `needs_permission` before `execute`
    module      `("run",)`: call it
    handler     `("TOOLS", index, function)`: call `TOOLS[index]["handler"]`, which is that function if it has a name
    """

    kind: CallKind
    names: tuple[str, ...]
    injected: tuple[str, ...] = ()
    """Those of `INJECTED` that it declares, in its own order; all can be given by name."""
    takes_mapping: bool = False
    """Whether all arguments are handed over as one dict, its first positional argument."""


@dataclass(frozen=True, slots=True)
class Tool:
    """What can be called, and the source it lives in."""

    name: str
    entry: str
    filename: str
    text: str
    digest: str
    is_async: bool
    is_generator: bool
    parameters: tuple[Parameter, ...]
    accepts_extra: bool
    imports: frozenset[str]
    """What may be modules of all that it imports when it is loaded."""
    line: int
    docstring: str | None
    requirements: tuple[str, ...]
    requires_python: str | None
    call: CallForm
    scope: Scope = field(default=NO_NAMES, compare=False, repr=False)
    """What the names in its annotations stand for."""
    settings: ToolSettings = NO_SETTINGS
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The JSON schema of its parameters, where the source says one beside the signature."""
    returns: Mapping[str, Any] | None = field(default=None, hash=False)
    """The JSON schema of what it returns, where its annotation says one."""
