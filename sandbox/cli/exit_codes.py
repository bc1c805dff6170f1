"""From whatever happened to an exit code: every way a command can end is here.

    0 ok   1 the tool failed   2 usage, source or arguments   3 a limit   4 environment   5 backend or isolation
    130 cancelled: SIGINT, SIGTERM or SIGHUP   141 the reader of our output went away

Nobody who uses the command line ever sees a Python traceback of ours. What we did not foresee is one line too, and
`SANDBOX_TRACEBACK=1` lets whoever reports it show the rest.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from sandbox.cli.terminal import ReaderGone, Unwritable, glyph, painted, prepare_streams, show_document, tell
from sandbox.cli.text import one_line, visible
from sandbox.errors import CallCancelled, SandboxError

if TYPE_CHECKING:
    from sandbox.outcome import Outcome

USAGE: Final = 2
UNAVAILABLE: Final = 5
CANCELLED: Final = 130
READER_GONE: Final = 141

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONCE_MORE_S: Final = 0.02


class Interrupts:
    """Raises `KeyboardInterrupt` for each signal that asks us to end, and remembers that one came: what is torn down
    because of it may raise something else on the way out. One that came while an object was removed has nowhere to go:
    Python drops it, and it is raised once more."""

    def __init__(self) -> None:
        self.came = False
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and background jobs set it
                signal.signal(number, self._interrupt)
        signal.signal(signal.SIGALRM, self._interrupt)
        self._dropped, sys.unraisablehook = sys.unraisablehook, self._take_dropped

    def stop(self) -> None:
        """We are ending already: what is left is one line to write."""
        for number in (*_SIGNALS, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt

    def _take_dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _ONCE_MORE_S)
        else:
            self._dropped(dropped)


class CutShort(Exception):
    """An interrupt ended a call, and what came of it until then has been told."""


def cut_short(interrupt: KeyboardInterrupt) -> Outcome | None:
    """What came of the call that it ended, if that had begun."""
    cancelled = CallCancelled.of(interrupt)
    return None if cancelled is None else cancelled.outcome


def exit_code_of(words: list[str]) -> int:
    """Run one command line; what went wrong has been told when this returns."""
    prepare_streams()
    as_json = "--json" in words
    interrupts = Interrupts()
    problem: BaseException | None = None
    code = 0
    try:
        code = _obeyed(words)
    except ReaderGone:
        return READER_GONE
    except (Exception, KeyboardInterrupt) as error:
        problem = error
    interrupts.stop()
    if isinstance(problem, CutShort):
        return CANCELLED
    if interrupts.came:
        problem = KeyboardInterrupt()
    if problem is None:
        return code
    told, code = _judged(problem, words)
    _report(told, as_json=as_json)
    return code


def _obeyed(words: list[str]) -> int:
    from sandbox.cli.app import command_line

    app = command_line(words[0] if words else None)
    code: Any = app(words or ["--help"], prog_name="sandbox", standalone_mode=False)
    return code if isinstance(code, int) and words else 0 if words else USAGE


def _report(told: Told, *, as_json: bool) -> None:
    try:
        report_error(told, as_json=as_json and told.type != Unwritable.__name__)
    except (ReaderGone, Unwritable):
        report_error(told, as_json=False)


def _judged(error: BaseException, words: list[str]) -> tuple[Told, int]:
    if isinstance(error, SandboxError):
        return Told(type(error).__name__, error.message, error.remedy), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        ended = "the call was killed and its box closed" if words[:1] == ["run"] else "what was under way was ended"
        return Told("Cancelled", f"cancelled: {ended}"), CANCELLED
    if isinstance(error, Unwritable):
        return Told(Unwritable.__name__, str(error)), UNAVAILABLE
    usage = _usage_complaint(error, words)
    if usage is not None:
        return usage, USAGE
    if os.environ.get("SANDBOX_TRACEBACK"):
        tell("".join(traceback.format_exception(error)))
    message = f"something is wrong inside sandbox: {type(error).__name__}: {one_line(str(error))}"
    return Told("InternalError", message, "please report it, with what SANDBOX_TRACEBACK=1 adds"), UNAVAILABLE


def _usage_complaint(error: BaseException, words: list[str]) -> Told | None:
    """What typer's parser says. Its errors have had two homes, typer's own and click's; both can be asked alike. Some
    do not know which command they are about."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    from sandbox.cli.app import named_command

    path = getattr(getattr(error, "ctx", None), "command_path", None) or named_command(words)
    message = str(format_message()).rstrip(".")
    return Told("UsageError", message[:1].lower() + message[1:], f"{path} --help")


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
