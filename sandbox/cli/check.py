"""`sandbox check` and `sandbox schema`. Neither executes anything of the source.

`check` shows every problem of a tool's source with its line and a caret below it, and then what the source may do that
deserves a look. Its exit code is 2 if a problem is an error, 0 if there are at most warnings; risk does not change it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.options import AsJson
from sandbox.cli.terminal import glyph, is_terminal, one_line, painted, show, show_document, tell, visible

if TYPE_CHECKING:
    from sandbox.tools.check import CheckReport
    from sandbox.tools.problems import SourceProblem
    from sandbox.tools.risk import RiskLevel, RiskReport

ToolFile = Annotated[Path, typer.Argument(metavar="FILE", help="Python file of the tool.")]
Entry = Annotated[str | None, typer.Option("--entry", metavar="NAME", help="Function to use if the file has several.")]
_WIDTH = 100
_BEFORE_CARET = 60


def check(file: ToolFile, *, entry: Entry = None, as_json: AsJson = False) -> int:
    """Check a tool's source and show all its problems at once."""
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
    return f"{problems}{_risk(report.risk, file)}{_summary(report)}"


def _lines(file: Path) -> list[str]:
    """Return the lines of the source, or none if it cannot be decoded."""
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
    """Return the faulty line, or the part around the fault, with a caret below."""
    from sandbox.tools.safe_text import caret_picture

    if problem.line is None or problem.column is None or not 1 <= problem.line <= len(lines):
        return ""
    line = lines[problem.line - 1]
    shown, blanks = caret_picture(line, problem.column, width=_WIDTH, before=_BEFORE_CARET, shown=visible)
    caret = painted("^", "green", on=sys.stdout)
    return f"    {shown}\n    {blanks}{caret}\n" if line.strip() else ""


def _risk(risk: RiskReport | None, file: Path) -> str:
    """Return the section on risk; a source without findings has none."""
    if risk is None or not risk.findings:
        return ""
    text = f"risk: {_level(risk.level)}\n"
    for each in risk.findings:
        place = f"{one_line(str(file))}:{each.line}"
        text += f"    {place}: {_level(each.level)}: {visible(each.reason)} [{each.kind}]\n"
    if risk.unlisted:
        text += f"    {risk.unlisted} more are not listed\n"
    return text + painted(f"    {risk.note}", "dim", on=sys.stdout) + "\n"


def _level(level: RiskLevel) -> str:
    if level in ("none", "low"):
        return level
    return painted(level, "red" if level == "high" else "yellow", on=sys.stdout)


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
            help="openai, openai-responses, anthropic, mcp or json.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Require every property and close every object.")] = False,
    entry: Entry = None,
    as_json: AsJson = False,
) -> int:
    """Show the schema of a tool that models receive."""
    from sandbox.client.client import Sandbox

    with Sandbox() as box:
        found = box.schema(file, format=format, strict=strict, entry=entry)
    is_read_by_people = is_terminal(sys.stdout) or not as_json
    show_document(json.dumps(found.document, ensure_ascii=False, indent=2 if is_read_by_people else None))
    for loss in found.losses:
        tell(f"lost: {visible(str(loss))}\n")
    return 0
