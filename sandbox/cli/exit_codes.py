"""Exit codes: from every end of a command to its code.

    0 ok   1 the tool failed   2 usage, source or arguments   3 a limit   4 environment   5 backend or isolation
    130 cancelled: SIGINT, SIGTERM or SIGHUP   141 the reader of our output went away

Users of the command line never see a Python traceback of the engine. An unforeseen error is one line too, and
`SANDBOX_TRACEBACK=1` adds the traceback for a report.
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
    """Raise `KeyboardInterrupt` for each signal that asks the process to end, and remember the signal.

    Code that is torn down because of the interrupt may raise another error. Python drops an interrupt that comes while
    an object is deleted, so this class raises it again.
    """

    def __init__(self) -> None:
        self.came = False
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs set this
                signal.signal(number, self._interrupt)
        signal.signal(signal.SIGALRM, self._interrupt)
        self._dropped, sys.unraisablehook = sys.unraisablehook, self._take_dropped

    def stop(self) -> None:
        """Ignore further signals, because the command is ending and has one line left to write."""
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
    """Raised after an interrupt ended a call whose output until then was shown."""


def cut_short(interrupt: KeyboardInterrupt) -> Outcome | None:
    """Return the outcome of the call that the interrupt ended, or None if no call had begun."""
    cancelled = CallCancelled.of(interrupt)
    return None if cancelled is None else cancelled.outcome


def exit_code_of(words: list[str]) -> int:
    """Run one command line and return its exit code. Errors are reported before the function returns."""
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
    report, code = _judge(problem, words)
    _report(report, as_json=as_json)
    return code


def _obeyed(words: list[str]) -> int:
    from sandbox.cli.app import command_line

    app = command_line(words[0] if words else None)
    code: Any = app(words or ["--help"], prog_name="sandbox", standalone_mode=False)
    return code if isinstance(code, int) and words else 0 if words else USAGE


def _report(report: ErrorReport, *, as_json: bool) -> None:
    try:
        report_error(report, as_json=as_json and report.type != Unwritable.__name__)
    except (ReaderGone, Unwritable):
        report_error(report, as_json=False)


def _judge(error: BaseException, words: list[str]) -> tuple[ErrorReport, int]:
    if isinstance(error, SandboxError):
        return ErrorReport(type(error).__name__, error.message, error.remedy), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        ended = "the call was killed and its box closed" if words[:1] == ["run"] else "what was under way was ended"
        return ErrorReport("Cancelled", f"cancelled: {ended}"), CANCELLED
    if isinstance(error, Unwritable):
        return ErrorReport(Unwritable.__name__, str(error)), UNAVAILABLE
    usage = _describe_usage(error, words)
    if usage is not None:
        return usage, USAGE
    if os.environ.get("SANDBOX_TRACEBACK"):
        tell("".join(traceback.format_exception(error)))
    message = f"something is wrong inside sandbox: {type(error).__name__}: {one_line(str(error))}"
    return ErrorReport("InternalError", message, "please report it, with what SANDBOX_TRACEBACK=1 adds"), UNAVAILABLE


def _describe_usage(error: BaseException, words: list[str]) -> ErrorReport | None:
    """Return the message of typer's parser, an error of typer or click that may not know its command."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    from sandbox.cli.app import named_command

    path = getattr(getattr(error, "ctx", None), "command_path", None) or named_command(words)
    message = str(format_message()).rstrip(".")
    return ErrorReport("UsageError", message[:1].lower() + message[1:], f"{path} --help")


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The parts of an error's report."""

    type: str
    message: str
    remedy: str | None = None


def report_error(report: ErrorReport, *, as_json: bool) -> None:
    """Write the report to stdout as JSON, or to stderr for people."""
    if as_json:
        show_document(json.dumps({"error": asdict(report)}, ensure_ascii=False))
    else:
        tell(error_text(report))


def error_text(report: ErrorReport) -> str:
    """Return the lines for people. The message of a source error already has the faulty line with a caret."""
    text = painted("error:", "red", on=sys.stderr) + f" {visible(report.message)}\n"
    if report.remedy:
        arrow = glyph("→", plain="->", on=sys.stderr)
        text += painted(f"  {arrow} {visible(report.remedy)}", "dim", on=sys.stderr) + "\n"
    return text
