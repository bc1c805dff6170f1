"""What a dialect finds: one callable of a source."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.tools.source import Function
from sandbox.tools.tool import CallKind


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
    is_marked: bool = True
    """Whether the source marks it as a tool; a plain public function is one only when nothing else is."""
    settings: Mapping[str, Any] | None = None
    """What else the dialect says of it."""
