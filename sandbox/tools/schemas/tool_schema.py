"""A tool's schema, checked before it is written in anybody's shape: its name, its description, its parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from sandbox.errors import SchemaRefused
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.schemas.input import Unreadable, plain_schema
from sandbox.tools.schemas.issues import ROOT, Finding
from sandbox.tools.schemas.nodes import Schema
from sandbox.tools.schemas.validator import validator

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What every provider accepts as a tool's name."""


class Export(NamedTuple):
    """A tool in a provider's shape, and what that shape could not say."""

    document: Schema
    losses: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """What every provider is told about a tool."""

    name: str
    description: str
    parameters: Schema


def read_tool_schema(schema: object) -> ToolSchema:
    """The parts of `{"name", "description", "parameters"}`, or `SchemaRefused` with everything that is wrong."""
    try:
        given = plain_schema(schema)
    except Unreadable as fault:
        raise _refusal([fault.finding]) from None
    name, description, parameters = given.get("name"), given.get("description", ""), given.get("parameters")
    wrong: list[Finding] = []
    if not isinstance(name, str) or not NAME.fullmatch(name):
        shown = excerpt(name, NAME_LENGTH) if isinstance(name, str) else "nothing"
        wrong.append(Finding("name", f"{shown} is no name: 1 to 64 letters, digits, _ or -, and a letter first"))
    if not isinstance(description, str):
        wrong.append(Finding("description", "is not a string"))
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        wrong.append(Finding(ROOT, "`parameters` is not a schema of type object"))
    if wrong:
        raise _refusal(wrong)
    assert isinstance(name, str)
    assert isinstance(description, str)
    assert isinstance(parameters, dict)
    validator(parameters)
    return ToolSchema(name, description, parameters)


def _refusal(reasons: list[Finding]) -> SchemaRefused:
    return SchemaRefused("this is no tool's schema", reasons=tuple(reasons), remedy="correct these places")
