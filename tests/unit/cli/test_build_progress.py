"""The progress of a build is visible while it runs, and gone when it is over."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
from typing import Final

import pytest
from rich.console import Console
from rich.spinner import Spinner

from sandbox.cli.build_progress import Step, build_progress, drawn
from sandbox.environments.progress import Progress, ignore_progress
from tests.checkout import ROOT

BUILD: Final = (
    Progress("wait", "for process 1, which builds the same"),
    Progress("resolve", "gadget, widget"),
    Progress("download", "gadget", 0, 2000),
    Progress("download", "widget", 0, 4000),
    Progress("download", "gadget", 2000, 2000),
    Progress("download", "widget", 1000, 4000),
    Progress("unpack", "2 packages", 0, 2),
    Progress("unpack", "gadget", 1, 2),
    Progress("verify", "2 packages", 2, 2),
    Progress("publish", "2 packages", 2, 2),
    Progress("ready", "0123"),
)


def _printed(*events: Progress) -> Step:
    step = Step(events[0].stage, began=0.0)
    for event in events:
        step.note(event)
    return step


def _picture(*steps: Step, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(drawn(steps, spinner=Spinner("line"), width=width))
    return captured.get().splitlines()


# Into a file


def test_a_file_gets_one_line_for_each_stage(capfd: pytest.CaptureFixture[str]) -> None:
    with build_progress(is_shown=True) as tell:
        for event in BUILD * 2:
            tell(event)
    assert capfd.readouterr() == (
        "",
        "waiting for process 1, which builds the same\n"
        "resolving gadget, widget\n"
        "downloading wheels\n"
        "unpacking 2 packages\n"
        "verifying 2 packages\n"
        "publishing 2 packages\n",
    )


def test_quiet_output_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with build_progress(is_shown=False) as tell:
        assert tell is ignore_progress
    assert capfd.readouterr() == ("", "")


def test_a_warning_is_one_line_that_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    with build_progress(is_shown=True) as tell:
        for event in (Progress("warn", "gadget is yanked"), *BUILD[:2], Progress("warn", "gadget is yanked")):
            tell(event)
    assert capfd.readouterr().err.splitlines()[0] == "warning: gadget is yanked"
    with build_progress(is_shown=True) as tell:
        tell(Progress("warn", "evil\x1b[2J\n" * 100))
    said = capfd.readouterr().err
    assert said.startswith("warning: evil\\u001b[2J evil")
    assert said.count("\n") == 1


def test_a_stage_prints_one_short_line(capfd: pytest.CaptureFixture[str]) -> None:
    with build_progress(is_shown=True) as tell:
        tell(Progress("resolve", "evil\x1b[2J\n" * 100))
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said
    assert len(said) < 120


# Drawing


def test_a_download_adds_up_its_wheels() -> None:
    step = _printed(*BUILD[2:6])
    assert (step.done, step.total) == (3000, 6000)
    assert step.detail == "widget"
    assert step.figure == "2.9 KiB of 5.9 KiB"
    step.ended = 2.0
    assert (step.detail, step.figure, step.elapsed) == ("2 wheels", "2.9 KiB", 2.0)


def test_a_download_of_unknown_length_has_no_end() -> None:
    step = _printed(Progress("download", "gadget", 1024, None))
    assert (step.total, step.figure) == (None, "1 KiB")
    assert "━" not in "".join(_picture(step))


def test_unpacking_counts_packages() -> None:
    step = _printed(Progress("unpack", "2 packages", 0, 2), Progress("unpack", "gadget", 1, 2))
    assert (step.detail, step.figure) == ("2 packages", "1 of 2")


def test_each_stage_has_one_line_and_each_column_its_place() -> None:
    over = _printed(Progress("resolve", "gadget"))
    over.ended = 1.5
    lines = _picture(over, _printed(*BUILD[2:6]))
    assert len(lines) == 2
    assert lines[0].split() == ["✓", "resolved", "gadget", "1.50", "s"]
    assert lines[1].index("downloading") == lines[0].index("resolved")
    assert "━" in lines[1]
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize("width", [1, 20, 40, 79, 80, 100])
def test_no_terminal_is_too_narrow(width: int) -> None:
    lines = _picture(_printed(*BUILD[2:6]), _printed(Progress("unpack", "x" * 200, 1, 2)), width=width)
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


# On a terminal


def _on_a_terminal(script: str, *, after: str = "", **variables: str) -> str:
    """Return what a script sends to a terminal, whose input ends after the script has drawn a given text."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    command, variables = [sys.executable, "-c", script], {**kept, "TERM": "xterm-256color", **variables}
    said = b""
    with (
        open(ours, "rb", buffering=0) as terminal,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=theirs, env=variables) as process,
    ):
        assert process.stdin is not None
        os.close(theirs)
        while piece := _read(terminal.fileno()):
            said += piece
            if after.encode() in said:
                process.stdin.close()
    assert process.returncode == 0, said.decode()
    return said.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # a terminal reports that no process writes to it any more
        return b""


SCRIPT: Final = """
import sys
from sandbox.cli.build_progress import build_progress
from sandbox.environments.progress import Progress
with build_progress(is_shown=True) as tell:
    assert "rich" not in sys.modules
    tell(Progress("resolve", "gadget"))
    tell(Progress("download", "gadget", 1, 2))
    sys.stdin.read()
    {then}
print("after", file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "then", ["tell(Progress('ready', ''))", "pass", "tell(Progress('ready', '')); tell(Progress('wait', 'x'))"]
)
def test_a_terminal_is_restored_at_the_end(then: str) -> None:
    said = _on_a_terminal(SCRIPT.format(then=then), after="downloading")
    assert "resolved" in said
    assert "gadget" in said
    *_, last = said.split("\x1b[?25l")  # the cursor is hidden, and comes back
    assert "\x1b[?25h" in last
    assert said.endswith("after\r\n")
    drawn_lines = last.partition("\x1b[?25h")[0]
    assert drawn_lines.count("\x1b[2K") >= drawn_lines.count("\n")


@pytest.mark.slow
@pytest.mark.parametrize("then", ["tell(Progress('ready', ''))", "pass"])
def test_a_warning_stays_on_a_terminal_at_the_end(then: str) -> None:
    script = SCRIPT.replace("    sys.stdin", "    tell(Progress('warn', 'gadget is yanked'))\n    sys.stdin")
    said = _on_a_terminal(script.format(then=then), after="downloading")
    assert said.count("warning") == 1
    assert said.endswith("warning: gadget is yanked\r\nafter\r\n")


@pytest.mark.slow
def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    said = _on_a_terminal(SCRIPT.replace('"rich" not in sys.modules', "True").format(then="pass"), TERM="dumb")
    assert said == "resolving gadget\r\ndownloading wheels\r\nafter\r\n"


@pytest.mark.slow
def test_events_may_come_from_many_threads_at_once() -> None:
    many = """import threading
    def work(number):
        for done in range(200):
            tell(Progress("download", str(number), done, 200))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert threading.active_count() <= 2"""
    assert _on_a_terminal(SCRIPT.format(then=many)).endswith("after\r\n")
