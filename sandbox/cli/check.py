"""`sandbox check` and `sandbox schema`: the problems of a tool's source, each with its line and a caret, and its
schema.

`check` exits with 2 if a problem is an error, and with 0 if there are only warnings. No code of the source runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.options import AsJson
from sandbox.cli.terminal import glyph, is_terminal, painted, show, show_document, tell
from sandbox.cli.text import one_line, visible

if TYPE_CHECKING:
    from sandbox.tools.check import CheckReport
    from sandbox.tools.problems import SourceProblem

ToolFile = Annotated[Path, typer.Argument(metavar="FILE", help="The tool: a Python file.")]
Entry = Annotated[str | None, typer.Option("--entry", metavar="NAME", help="What to call, where there are several.")]
_WIDTH = 100
_BEFORE_CARET = 60


def check(file: ToolFile, *, entry: Entry = None, as_json: AsJson = False) -> int:
    """Check a tool's source: all its problems at once, and what it can be called as."""
    from sandbox.client.client import Sandbox

    with Sandbox() as box:
        report = box.check(file, entry=entry)
    if as_json:
        show_document(report.to_json(indent=2 if is_terminal(sys.stdout) else None))
    else:
        show(_page(report, file))
    return 0 if report.ok else 2


def _page(report: CheckReport, file: Path) -> str:
    lines = _lines(file)
    problems = "".join(_problem(each, file, lines) for each in report.problems)
    return f"{problems}{_summary(report)}"


def _lines(file: Path) -> list[str]:
    """Return the lines of the source, as far as the source is text."""
    from sandbox.errors import SourceError
    from sandbox.tools.syntax.decoding import decode_source

    try:
        return decode_source(file.read_bytes()).split("\n")
    except (SourceError, OSError):
        return []


def _problem(problem: SourceProblem, file: Path, lines: list[str]) -> str:
    place = ":".join(str(part) for part in (one_line(str(file)), problem.line, problem.column) if part is not None)
    severity = painted(f"{problem.severity}:", "red" if problem.severity == "error" else "yellow", on=sys.stdout)
    message = visible(problem.message.partition("\n")[0])
    text = f"{painted(place, 'bold', on=sys.stdout)}: {severity} {message} [{problem.code}]\n"
    text += _picture(problem, lines)
    if problem.remedy:
        arrow = glyph("→", plain="->", on=sys.stdout)
        text += painted(f"    {arrow} {visible(problem.remedy)}", "dim", on=sys.stdout) + "\n"
    return text


def _picture(problem: SourceProblem, lines: list[str]) -> str:
    """Return the line, or a part around the column, with a caret below."""
    from sandbox.tools.safe_text import caret_picture

    if problem.line is None or problem.column is None or not 1 <= problem.line <= len(lines):
        return ""
    line = lines[problem.line - 1]
    shown, blanks = caret_picture(line, problem.column, width=_WIDTH, before=_BEFORE_CARET, shown=visible)
    caret = painted("^", "green", on=sys.stdout)
    return f"    {shown}\n    {blanks}{caret}\n" if line.strip() else ""


def _summary(report: CheckReport) -> str:
    from sandbox.cli.env_build import counted

    errors = sum(each.severity == "error" for each in report.problems)
    warnings = len(report.problems) - errors
    found = [counted(errors, "error")] if errors else []
    found += [counted(warnings, "warning")] if warnings else []
    names = ", ".join(one_line(each.entry, most=80) for each in report.callables[:20])
    callables = f"{counted(len(report.callables), 'callable')}: {names}" if report.callables else "nothing to call"
    verdict = painted("ok", "green", on=sys.stdout) if report.ok else painted("not ok", "red", on=sys.stdout)
    return f"{verdict}: {'; '.join([*found, callables])}\n"


def schema(
    file: ToolFile,
    *,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="openai, openai-responses, anthropic, mcp or json; by default name, description and parameters.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Every property required, every object closed.")] = False,
    entry: Entry = None,
    as_json: AsJson = False,
) -> int:
    """Show the schema that models are given of a tool."""
    from sandbox.client.client import Sandbox

    with Sandbox() as box:
        found = box.schema(file, format=format, strict=strict, entry=entry)
    is_read_by_people = is_terminal(sys.stdout) or not as_json
    show_document(json.dumps(found.document, ensure_ascii=False, indent=2 if is_read_by_people else None))
    for loss in found.losses:
        tell(f"lost: {visible(str(loss))}\n")
    return 0
