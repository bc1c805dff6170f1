"""An outcome for people: the tool's output, then its value, then the end of the call.

Stdout receives what the tool wrote to its stdout, then the value: text as it is, a table row by row (in columns on a
terminal), an image or bytes as one descriptive line, anything else as JSON. None prints nothing. Stderr receives what
the tool wrote to its stderr, the error of a call that is not ok, and one line of figures. A pipe therefore gets the
result and nothing else.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from sandbox.cli.artifact import SHOWN_ID_LENGTH, about
from sandbox.cli.terminal import (
    glyph,
    has_colours,
    is_terminal,
    limit_figure,
    one_line,
    painted,
    rounded_bytes,
    rounded_seconds,
    show,
    tell,
    visible,
)
from sandbox.outcome import Json, Outcome, Problem, Status, portable

_WIDEST_LINE: Final = 80
_MOST_COLOURED: Final = 100_000
_INDENT: Final = "  "
_LIMIT_FACTS: Final = ("limit", "measured", "unit")
_MOST_REFUSALS: Final = 5


def report_outcome(outcome: Outcome, *, is_output_shown: bool = False, is_value_fitted: bool = False) -> None:
    """Print the outcome.

    The tool's output is skipped if it was streamed already. With `is_value_fitted` the value is printed in its budget.
    """
    if not is_output_shown:
        show(_ended(visible(outcome.stdout.text)))
        tell(_ended(visible(outcome.stderr.text)))
    if outcome.ok and (is_value_fitted or _is_for_eyes(outcome.value)):
        _show_fitted(outcome)
    elif outcome.ok:
        show_value(outcome.value)
    else:
        tell(painted(headline(outcome), "red", on=sys.stderr) + "\n")
        tell("".join(f"{_INDENT}{line}\n" for line in details(outcome)))
    for artifact in outcome.artifacts:
        tell(painted(f"artifact {artifact.id[:SHOWN_ID_LENGTH]}: {about(artifact)}", "bold", on=sys.stderr) + "\n")
    for refused in outcome.refused:
        told = f"not taken: {one_line(refused.name) or 'outputs'}: {one_line(refused.reason)}"
        tell(painted(told, "yellow", on=sys.stderr) + "\n")
    notes = outcome.receipt.notes if outcome.receipt else ()
    for warning in dict.fromkeys((*outcome.warnings, *notes)):
        tell(painted(f"warning: {one_line(warning)}", "yellow", on=sys.stderr) + "\n")
    tell(painted(summary(outcome), "dim", on=sys.stderr) + "\n")


def _is_for_eyes(value: Json) -> bool:
    """Return whether the value is a table, an image or bytes, which people do not read as JSON."""
    return isinstance(value, dict) and isinstance(value.get("$type"), str)


def _show_fitted(outcome: Outcome) -> None:
    """Print the shaped text of the value; draw a complete table on a terminal."""
    fitted = outcome.shaped_value
    if fitted.type == "table" and not fitted.truncated and is_terminal(sys.stdout):
        from sandbox.cli.tables import drawn_table, screen_width

        page = drawn_table(outcome.value, width=screen_width())
        if page is not None:
            return page.show()
    return show(_ended(visible(fitted.text)))


def show_value(value: Json) -> None:
    """Print the value alone, coloured on a terminal if it is short."""
    if value is None:
        return
    if isinstance(value, str):
        show(_ended(visible(value)))
        return
    text = visible(value_json(value))
    is_plain = not has_colours(sys.stdout) or len(text) > _MOST_COLOURED
    show(f"{text}\n" if is_plain else _coloured(text))


def value_json(value: Json) -> str:
    """Return the value as JSON, on one line if it fits and otherwise indented."""
    fit = portable(value)
    line = json.dumps(fit, ensure_ascii=False)
    return line if len(line) <= _WIDEST_LINE else json.dumps(fit, ensure_ascii=False, indent=2)


def _coloured(text: str) -> str:
    from rich.console import Console
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    console = Console(file=sys.stdout)
    with console.capture() as captured:
        console.print(JSONHighlighter()(Text(text)), soft_wrap=True)
    return captured.get()


def headline(outcome: Outcome) -> str:
    """Describe the end of a call that is not ok: `exception: ValueError: no such city`."""
    status = outcome.status.value
    if outcome.limit_name and outcome.status is Status.LIMIT:
        status += f" {outcome.limit_name}"
    if outcome.status is Status.INVALID and outcome.problems:
        return f"{status}: the arguments do not fit {visible(outcome.tool.name)}"
    if outcome.error is None:
        return status
    message = visible(outcome.error.message).strip().replace("\n", f"\n{_INDENT}")
    kind = visible(outcome.error.type)
    is_told = kind.lower() == status or kind in message
    return ": ".join(part for part in (status, "" if is_told else kind, message) if part)


def details(outcome: Outcome) -> list[str]:
    """Return further facts about the end of the call, one per line."""
    lines = [_problem_line(problem) for problem in outcome.problems]
    if outcome.error is not None and outcome.error.traceback:
        lines += visible(outcome.error.traceback).strip("\n").split("\n")
    if limit := _limit_line(outcome):
        lines.append(limit)
    if network := _network_line(outcome):
        lines.append(network)
    told = {"network", *(_LIMIT_FACTS if limit else ())}
    seen = {name: fact for name, fact in outcome.evidence.items() if name not in told}
    if seen:
        facts = (f"{name.replace('_', ' ')} {one_line(str(fact), most=80)}" for name, fact in seen.items())
        lines.append(f"seen: {', '.join(facts)}")
    return lines


def _problem_line(problem: Problem) -> str:
    """Return one line such as `count: must be an integer, got "x"`."""
    path, message = one_line(problem.path), one_line(problem.message)
    expected, got = one_line(str(problem.expected or "")), one_line(str(problem.got or ""))
    told = [f"expected {expected}"] if expected and expected not in message else []
    told += [f"got {got}"] if got and got != "nothing" else []
    said = f"{message}; {', '.join(told)}" if told else message
    return f"{path}: {said}" if path else said


def _network_line(outcome: Outcome) -> str | None:
    """Return one line such as `network: 3 connections, 1.2 KiB sent, 2.0 MiB received; refused: 10.0.0.1 (address)`."""
    traffic: Any = outcome.evidence.get("network")
    if not isinstance(traffic, dict):
        return None
    sent, received = rounded_bytes(traffic["sent_bytes"]), rounded_bytes(traffic["received_bytes"])
    line = f"network: {traffic['connections']} connections, {sent} sent, {received} received"
    told = [one_line(f"{each['host']} ({each['reason']})", most=80) for each in traffic["refusals"][:_MOST_REFUSALS]]
    return f"{line}; refused: {', '.join(told)}" if told else line


def _limit_line(outcome: Outcome) -> str | None:
    name, limit = outcome.limit_name, outcome.evidence.get("limit")
    if name is None or limit is None:
        return None
    unit = outcome.evidence.get("unit")
    line = f"limit {name}: {limit_figure(name, limit, exact=True, unit=unit)}"
    measured = outcome.evidence.get("measured")
    return line if measured is None else f"{line}, measured {limit_figure(name, measured, exact=False, unit=unit)}"


def summary(outcome: Outcome) -> str:
    """Return `ok · 12 ms · 4.2 MiB · cold · process`, without unmeasured parts."""
    peak = outcome.usage.memory_peak_bytes
    is_run = outcome.receipt is not None or outcome.environment is not None
    parts = [
        outcome.status.value,
        rounded_seconds(outcome.usage.wall_s) if is_run else "nothing ran",
        rounded_bytes(peak) if peak else "",  # a call that ended before it began has no receipt
        outcome.timing.path if is_run else "",
        outcome.receipt.isolation.value if outcome.receipt else "",
    ]
    return f" {glyph('·', plain='-', on=sys.stderr)} ".join(part for part in parts if part)


def _ended(text: str) -> str:
    """Append a line break to text that lacks one."""
    return text if not text or text.endswith("\n") else f"{text}\n"
