"""The list of a source's problems, each with its place and a remedy.

Reading for a call stops at the first problem that makes the call impossible. Reading for a check continues, and
collects all problems in one list, so that an author can correct all of them in one go.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict

from sandbox.errors import SourceError
from sandbox.tools.safe_text import excerpt

Severity = Literal["error", "warning"]

MAX_PROBLEMS = 200
_MAX_MESSAGE_LENGTH = 600


class SourceProblem(BaseModel):
    """A problem of a source; a warning leaves the tool usable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    severity: Severity
    code: str
    message: str
    line: int | None = None
    column: int | None = None
    """In characters, from 1."""
    path: str | None = None
    """The subject: `fetch.city`, or a place in a schema."""
    remedy: str | None = None


@dataclass(slots=True)
class Problems:
    """A list that problems are added to while a source is read."""

    text: str = ""
    found: list[SourceProblem] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _unlisted: dict[Severity, int] = field(default_factory=lambda: {"error": 0, "warning": 0})

    def add(
        self,
        code: str,
        message: str,
        *,
        at: ast.AST | None = None,
        path: str | None = None,
        remedy: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Add one, at a node of the syntax tree; the same one is listed once."""
        problem = SourceProblem(
            severity=severity,
            code=code,
            message=excerpt(message, _MAX_MESSAGE_LENGTH),
            line=getattr(at, "lineno", None),
            column=self._column(at),
            path=None if path is None else excerpt(path),
            remedy=remedy,
        )
        self._list(problem)

    def in_order(self) -> list[SourceProblem]:
        """Return all of them in the order of the text; what is too many is counted."""
        found = sorted(self.found, key=lambda each: (each.line or 0, each.column or 0, each.severity, each.code))
        for severity, count in self._unlisted.items():
            if count:
                message = f"{count} more of this kind are not listed"
                found.append(SourceProblem(severity=severity, code="more_problems", message=message))
        return found

    def _list(self, problem: SourceProblem) -> None:
        if len(self.found) >= MAX_PROBLEMS:
            self._unlisted[problem.severity] += 1
        elif problem not in self.found:
            self.found.append(problem)

    def _column(self, node: ast.AST | None) -> int | None:
        """Return the column in characters; the tree counts bytes."""
        if not isinstance(node, ast.expr | ast.stmt | ast.arg):
            return None
        if not self._lines:
            self._lines.extend(self.text.split("\n"))
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        return len(line.encode()[: node.col_offset].decode(errors="replace")) + 1

    def add_error(self, code: str, error: SourceError, *, path: str | None = None) -> None:
        """Add what was raised."""
        problem = SourceProblem(
            severity="error",
            code=code,
            message=error.message,
            line=error.line,
            column=error.column,
            path=path,
            remedy=error.remedy,
        )
        self._list(problem)
