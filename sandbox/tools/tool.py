"""A tool as plain values: `ToolDefinition`, and the settings and names that belong to it.

A `ToolDefinition` holds everything that a call needs and nothing that was executed. `text` is the module file that the
box gets: newlines are `\\n`, and an encoding line says UTF-8, so that writing the text as UTF-8 and importing it there
gives exactly the program that was read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sandbox.policy.quantities import parse_seconds
from sandbox.tools.syntax.scope import NO_NAMES, Scope


def _duration(given: int | float | str) -> int | float | str:
    parse_seconds(given)
    return given


_OutputType = Annotated[str, Field(min_length=1, max_length=64)]


class ToolSettings(BaseModel):
    """All of them may be left out; what a call says counts before."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    policy: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    output_type: _OutputType | None = None
    stdout_type: _OutputType | None = None
    stderr_type: _OutputType | None = None
    return_char_limit: Annotated[int, Field(ge=1)] | None = None
    return_token_limit: Annotated[int, Field(ge=1)] | None = None
    """The same in tokens, where the engine was given a tokenizer."""
    strict_return: bool | None = None
    """Whether a value that is not what the annotation says is an exception, and not only a warning."""
    enable_parallel_execution: bool | None = None
    """False: an engine runs the calls of this tool that a tenant makes one after another."""
    timeout: Annotated[int | float | str, AfterValidator(_duration)] | None = None
    """As a policy writes it: 5, 2.5, "500ms", "2m"."""


NO_SETTINGS: Final = ToolSettings()


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
    """A parameter; required if it has no default and its annotation does not admit None."""

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
    """The parameters in `INJECTED` that the function declares, in its order; all can be given by name."""
    takes_mapping: bool = False
    """Whether all arguments are handed over as one dict, its first positional argument."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A callable, and the source that it lives in."""

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
    """The names that may be modules, of all imports that loading the module runs."""
    line: int
    docstring: str | None
    requirements: tuple[str, ...]
    requires_python: str | None
    call: CallForm
    scope: Scope = field(default=NO_NAMES, compare=False, repr=False)
    """The meaning of the names in its annotations."""
    settings: ToolSettings = NO_SETTINGS
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The JSON schema of its parameters, if the source writes one out."""
    returns: Mapping[str, Any] | None = field(default=None, hash=False)
    """The JSON schema of what it returns, where its annotation says one."""


NAME_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""The names of tools that every provider accepts."""
MAX_GENERATED_NAME: Final = 48

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SPACES = re.compile(r"[\s_]+")
_SUFFIX = "_tool"


def display_name(name: str) -> str:
    """Return the name for people: words in title case, without a trailing `_tool` or `Tool`."""
    bare = name.removesuffix("_tool").removesuffix("Tool")
    words = _SPACES.sub(" ", _WORD_START.sub(" ", bare)).strip()
    return " ".join(word[:1].upper() + word[1:].lower() for word in words.split(" ")) or name


def machine_name(class_name: str) -> str:
    """Return the name of a class for machines: snake_case, ending in `_tool`."""
    bare = class_name.removesuffix("_tool").removesuffix("Tool")
    words = re.sub(r"_+", "_", _WORD_START.sub("_", bare)).strip("_").lower()
    return f"{words[: MAX_GENERATED_NAME - len(_SUFFIX)]}{_SUFFIX}" if words else class_name.lower()
