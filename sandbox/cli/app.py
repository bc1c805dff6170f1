"""Every command, and the exit code and error message of every way a command can end.

    0 ok   1 the tool failed   2 usage, source or arguments   3 a limit   4 environment   5 backend or isolation
    130 cancelled: SIGINT, SIGTERM or SIGHUP   141 the reader of our output went away

Users never see a Python traceback of the engine. An unforeseen error is one line too, and `SANDBOX_TRACEBACK=1` shows
the traceback for a bug report.

A new command is one function in its group's module and one line here.

A module is imported only when the command line names its command, and typer then sees no other command: preparing all
commands takes longer than reading a tool.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.terminal import (
    ReaderGone,
    Unwritable,
    glyph,
    one_line,
    painted,
    prepare_streams,
    show,
    show_document,
    tell,
    visible,
)
from sandbox.errors import CallCancelled, SandboxError

if TYPE_CHECKING:
    from sandbox.outcome import Outcome

_COMMANDS: Final = {
    "run": "run:run",
    "check": "check:check",
    "schema": "check:schema",
    "doctor": "doctor:doctor",
}
"""The module and the function of each command."""
_GROUPS: Final = {
    "policy": {
        "list": "policy:list_policies",
        "show": "policy:show_policy",
        "explain": "policy:explain",
    },
    "env": {
        "lock": "env_build:lock_environment",
        "build": "env_build:build_environment",
        "list": "env:list_environments",
        "show": "env:show_environment",
        "verify": "env:verify_environments",
        "prune": "env:prune_environments",
        "export": "env_bundle:export_environment",
        "import": "env_bundle:import_environment",
    },
    "image": {
        "bootstrap": "image:bootstrap_image",
        "build": "image:build_image",
        "list": "image:list_all_images",
        "prune": "image:prune_images",
        "push": "image:push_image",
        "pull": "image:pull_image",
    },
    "artifact": {
        "list": "artifact:list_artifacts",
        "show": "artifact:show_artifact",
        "grep": "artifact:grep_artifact",
        "save": "artifact:save_artifact",
    },
}
_ABOUT: Final = {
    "policy": "See what policies grant, and what enforces them here.",
    "env": "Lock, build and keep the environments that tools run in.",
    "image": "Make and keep the images that containers start from.",
    "artifact": "Read what calls left, and what was too long to show.",
}
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


def command_line(first: str | None = None) -> typer.Typer:
    """Return the app for a command line that starts with `first`; it holds only that command or group if `first` is
    one."""
    app = typer.Typer(
        add_completion=False,
        context_settings=_SETTINGS,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # rich help takes twice as long
    )
    app.callback()(root)
    is_known = first in _COMMANDS or first in _GROUPS
    _add(app, {name: place for name, place in _COMMANDS.items() if name == first or not is_known})
    for name, commands in _GROUPS.items():
        if name == first or not is_known:
            group = typer.Typer(help=_ABOUT[name], no_args_is_help=False)
            _add(group, commands)
            app.add_typer(group, name=name)
    return app


def named_command(words: Sequence[str]) -> str:
    """Return the full name of the command that these words call, such as `sandbox env lock`."""
    first, second, *_ = (*words, "", "")
    if second in _GROUPS.get(first, ()):
        return f"sandbox {first} {second}"
    return f"sandbox {first}" if first in _COMMANDS or first in _GROUPS else "sandbox"


def _add(app: typer.Typer, commands: Mapping[str, str]) -> None:
    for name, place in commands.items():
        file, _, function = place.partition(":")
        app.command(name)(getattr(import_module(f"sandbox.cli.{file}"), function))


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        show(f"sandbox {version('sandbox-engine')}\n")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run tools, pieces of Python source, in boxes that the host's kernel isolates.

    Exit codes: 0 ok, 1 the tool failed, 2 usage, source or arguments, 3 a limit, 4 environment, 5 backend or isolation,
    130 cancelled, 141 the reader of the output went away.
    """


USAGE: Final = 2
UNAVAILABLE: Final = 5
CANCELLED: Final = 130
READER_GONE: Final = 141

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONCE_MORE_S: Final = 0.02


class Interrupts:
    """Raise `KeyboardInterrupt` for each signal that asks the process to end, and remember that one came.

    Clean-up after an interrupt may raise another error, which must not hide the interrupt. Python drops an interrupt
    that arrives while it finalizes an object; a timer then raises the interrupt again.
    """

    def __init__(self) -> None:
        self.came = False
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs ignore it
                signal.signal(number, self._interrupt)
        signal.signal(signal.SIGALRM, self._interrupt)
        self._dropped, sys.unraisablehook = sys.unraisablehook, self._take_dropped

    def stop(self) -> None:
        """Ignore further signals: only one line is left to write."""
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
    """An interrupt ended a call whose outcome is already reported."""


def cut_short(interrupt: KeyboardInterrupt) -> Outcome | None:
    """Return the outcome of the call that the interrupt ended, if the call had begun."""
    cancelled = CallCancelled.of(interrupt)
    return None if cancelled is None else cancelled.outcome


def exit_code_of(words: list[str]) -> int:
    """Run one command line, report any error, and return the exit code."""
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
    """Return the usage error that typer or click raised; some of them do not name their command."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None

    path = getattr(getattr(error, "ctx", None), "command_path", None) or named_command(words)
    message = str(format_message()).rstrip(".")
    return Told("UsageError", message[:1].lower() + message[1:], f"{path} --help")


@dataclass(frozen=True, slots=True)
class Told:
    """The parts of an error that the command line reports."""

    type: str
    message: str
    remedy: str | None = None


def report_error(told: Told, *, as_json: bool) -> None:
    """Print the error."""
    if as_json:
        show_document(json.dumps({"error": asdict(told)}, ensure_ascii=False))
    else:
        tell(error_text(told))


def error_text(told: Told) -> str:
    """Return the lines for people; a source error's message already shows the faulty line with a caret."""
    text = painted("error:", "red", on=sys.stderr) + f" {visible(told.message)}\n"
    if told.remedy:
        arrow = glyph("→", plain="->", on=sys.stderr)
        text += painted(f"  {arrow} {visible(told.remedy)}", "dim", on=sys.stderr) + "\n"
    return text
