"""The candidate: one callable of a source, as a dialect finds it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from sandbox.errors import SourceError
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.source import Function, Source
from sandbox.tools.tool import CallKind, ToolSettings


@dataclass(frozen=True, slots=True)
class Candidate:
    """A callable, as its dialect describes it."""

    entry: str
    """How a caller asks for it: `function`, `Class.method`, `Class`, or the name of a handler's tool."""
    name: str
    """The name that a model sees."""
    kind: CallKind
    names: tuple[str, ...]
    node: ast.AST
    """Where it is defined."""
    function: Function | None
    """The function that takes the arguments; None if a handler is not a function of this source."""
    is_bound: bool = False
    """Whether the first parameter is the object itself."""
    owner: ast.ClassDef | None = None
    description: str | None = None
    """The description outside of the docstring, which has precedence over the docstring."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the parameters, if the source writes one out."""
    arguments: ast.expr | None = None
    """The declared type of the dict of all arguments, outside of the signature."""
    is_marked: bool = True
    """Whether the source marks it as a tool; a plain public function is one only when nothing else is."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The declared settings, by the field names of `ToolSettings`."""


def text_or_none(value: object) -> str | None:
    """Return the value if it is text and not blank."""
    return value if isinstance(value, str) and value.strip() else None


def call_values(call: ast.Call, value: Callable[[str, ast.expr], Any]) -> dict[str, Any]:
    """Return the keyword arguments of a decorator, read by `value`, including those that it unpacks (`**COMMON`)."""
    values: dict[str, Any] = {}
    for each in call.keywords:
        found = value(each.arg or "**", each.value)
        if each.arg:
            values[each.arg] = found
        elif isinstance(found, dict):
            values.update({name: inner for name, inner in found.items() if isinstance(name, str) and name})
    return values


def output_type(source: Source, node: ast.expr) -> str | None:
    """Return the name of an output type: `OutputType.TABLE`, or the text."""
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    value = source.literal(node, of="the output type")
    return value if isinstance(value, str) else None


def settings_of(candidate: Candidate, block: ToolSettings) -> ToolSettings:
    """Return the settings of the tool's code, completed by those of the script block."""
    if not candidate.settings:
        return block
    try:
        return ToolSettings.model_validate({**block.model_dump(), **candidate.settings})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise SourceError(
            f"{first['loc'][0]} of {excerpt(candidate.entry, NAME_LENGTH)}: {excerpt(first['msg'])}",
            line=getattr(candidate.node, "lineno", None),
        ) from None
