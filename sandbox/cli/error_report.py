"""An error of ours, told: one clear line, and the remedy on a line of its own; or one JSON document on stdout."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

from sandbox.cli.escape import visible
from sandbox.cli.terminal import glyph, painted, show_document, tell


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of an error."""

    type: str
    message: str
    remedy: str | None = None


def report_error(told: Told, *, as_json: bool) -> None:
    """Tell it."""
    if as_json:
        show_document(json.dumps({"error": asdict(told)}, ensure_ascii=False))
    else:
        tell(error_text(told))


def error_text(told: Told) -> str:
    """The lines for people; a source error's message already shows the faulty line, with a caret below it."""
    text = painted("error:", "red", on=sys.stderr) + f" {visible(told.message)}\n"
    if told.remedy:
        arrow = glyph("→", plain="->", on=sys.stderr)
        text += painted(f"  {arrow} {visible(told.remedy)}", "dim", on=sys.stderr) + "\n"
    return text
