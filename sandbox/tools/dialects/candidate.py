"""What a dialect finds: one callable of a source."""

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
    """Something that can be called, as its dialect describes it."""

    entry: str
    """How a caller asks for it: `function`, `Class.method`, `Class`, or the name of a handler's tool."""
    name: str
    """What a model knows it by."""
    kind: CallKind
    names: tuple[str, ...]
    node: ast.AST
    """Where it is defined."""
    function: Function | None
    """Whose parameters it takes; none when a handler is no function of this source."""
    is_bound: bool = False
    """Whether the first parameter is the object itself."""
    owner: ast.ClassDef | None = None
    description: str | None = None
    """What is said beside the docstring, and counts before it."""
    schema: Mapping[str, Any] | None = None
    """What is said to be its parameters, as a JSON schema."""
    arguments: ast.expr | None = None
    """What type the dict of all arguments is said to have, beside the signature."""
    is_marked: bool = True
    """Whether the source marks it as a tool; a plain public function is one only when nothing else is."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it says of its own runs, in the words of `ToolSettings`."""


def said_text(value: object) -> str | None:
    """What is said, where it is text and not blank."""
    return value if isinstance(value, str) and value.strip() else None


def call_values(call: ast.Call, value: Callable[[str, ast.expr], Any]) -> dict[str, Any]:
    """The keyword arguments of a decorator, each as `value` reads it, with those of what it unpacks (`**COMMON`)."""
    values: dict[str, Any] = {}
    for each in call.keywords:
        found = value(each.arg or "**", each.value)
        if each.arg:
            values[each.arg] = found
        elif isinstance(found, dict):
            values.update({name: inner for name, inner in found.items() if isinstance(name, str) and name})
    return values


def output_type(source: Source, node: ast.expr) -> str | None:
    """The name of an output type: `OutputType.TABLE`, or the text."""
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    value = source.literal(node, of="the output type")
    return value if isinstance(value, str) else None


def settings_of(candidate: Candidate, block: ToolSettings) -> ToolSettings:
    """What is said of its runs: by the code of the tool, else by the script block of its source."""
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
