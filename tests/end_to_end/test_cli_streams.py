"""Streams that are closed, full, slow or of another encoding, and signals: the command line ends cleanly on each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from tests.checkout import ROOT
from tests.end_to_end.calls import wait_until
from tests.end_to_end.command_line import COMMAND, environment, sandbox, start

pytestmark = pytest.mark.slow

READER_GONE = 141
CANCELLED = 130
_BUSY_S = 0.7
ENDS_WITHIN_S = 60  # a call whose own time is up ends otherwise than one that was cancelled


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A tool that says it is there, then never ends."""
    path = tmp_path / "endless.py"
    path.write_text("def f():\n    print(end='ready\\n')\n    while True: pass\n")
    return path


@pytest.fixture
def loud(tmp_path: Path) -> Path:
    """A tool that prints more than any pipe holds."""
    path = tmp_path / "loud.py"
    path.write_text("def f():\n    print(('x' * 99 + '\\n') * 10_000)\n    return 'é ✓'\n")
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("way", [["--stream"], ["--stream", "--json"]], ids=["shown", "json"])
def test_a_signal_kills_the_call_and_its_output_so_far_is_shown(
    endless: Path, number: signal.Signals, way: list[str]
) -> None:
    with start("run", endless, *way) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == CANCELLED
    if "--json" in way:
        outcome = json.loads(out.splitlines()[-1])
        assert (outcome["status"], outcome["error"]["type"]) == ("cancelled", "Cancelled")
        assert outcome["stdout"]["text"] == "ready\n"
    else:
        assert err.startswith("cancelled: the caller cancelled the call\n")
        assert "cancelled · " in err.splitlines()[-1]


def test_output_of_a_cancelled_call_is_shown_if_it_was_not_streamed(endless: Path) -> None:
    with start("run", endless, "--timeout", "30s", "--json") as process:
        assert wait_until(lambda: _is_busy(process))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert (process.returncode, err) == (CANCELLED, "")
    outcome = json.loads(out)
    assert (outcome["status"], outcome["stdout"]["text"]) == ("cancelled", "ready\n")


def test_a_call_that_has_not_begun_is_cancelled_without_an_outcome(endless: Path) -> None:
    with start("run", endless, "--timeout", "30s") as process:
        _wait_until_it_has_a_box(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == CANCELLED
    assert re.match(r"error: cancelled: the call was killed and its box closed$|cancelled: the caller", err)


def _is_busy(process: subprocess.Popen[str]) -> bool:
    """Whether something below it has used so much of a processor that it can only be the tool."""
    below = psutil.Process(process.pid).children(recursive=True)
    return any(each.cpu_times().user > _BUSY_S for each in below if each.is_running())


def _wait_until_it_has_a_box(process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        if any((task / "children").read_text().strip() for task in tasks):
            return
        time.sleep(0.01)
    pytest.fail("no box was opened")


@pytest.mark.parametrize("way", [[], ["--stream"], ["--json"], ["--stream", "--json"]], ids=" ".join)
def test_a_reader_who_goes_away_ends_it_quietly(loud: Path, way: list[str]) -> None:
    whole = loud.with_name("whole.toml")
    whole.write_text(
        'description = "shows all"\nextends = "default"\n[output]\nbudgets = { execution_result = 1000000 }\n'
    )
    with start("run", loud, "--policy", str(whole), *way) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
    assert process.returncode == READER_GONE
    assert err == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(loud: Path, closed: str) -> None:
    command = " ".join([*COMMAND, "run", str(loud), closed])
    answer = subprocess.run(command, shell=True, cwd=ROOT, env=environment(), capture_output=True, check=False)
    assert answer.returncode == 0
    assert b"Traceback" not in answer.stderr


def test_reading_a_closed_standard_input_is_an_error(loud: Path) -> None:
    command = " ".join([*COMMAND, "run", str(loud), "--args", "-", "<&-"])
    answer = subprocess.run(command, shell=True, cwd=ROOT, env=environment(), capture_output=True, check=False)
    assert (answer.returncode, answer.stderr) == (2, b"error: --args - reads standard input, which is closed\n")


@pytest.mark.parametrize("way", [[], ["--json"]], ids=["shown", "json"])
def test_a_full_disk_is_reported(loud: Path, way: list[str]) -> None:
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [*COMMAND, "run", str(loud), *way],
            cwd=ROOT,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert answer.returncode == 5
    assert answer.stderr == "error: the output cannot be written: No space left on device\n"


_WORDS = ["--help", "--version", "run --help", "policy list", "policy show default", "env list", "artifact list"]


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONIOENCODING": "ascii"}], ids=str)
@pytest.mark.parametrize("words", _WORDS)
def test_no_command_takes_a_full_disk_for_a_fault_of_ours(words: str, variables: dict[str, str]) -> None:
    assert _ended(f"{words} >/dev/full", variables=variables) == (
        5,
        "error: the output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("words", _WORDS)
def test_any_command_ends_quietly_when_its_output_is_closed_or_unread(words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert _ended(words, stdout=writing) == (READER_GONE, "")
    finally:
        os.close(writing)
    assert _ended(f"{words} >&-") == (0, "")


def _ended(words: str, *, stdout: int | None = None, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """How a command line ends, and what it says on stderr."""
    command, env = f"exec {' '.join(COMMAND)} {words}", environment(**(variables or {}))
    ended = subprocess.run(
        command, shell=True, cwd=ROOT, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_can_show_any_answer(loud: Path, encoding: str) -> None:
    answer = sandbox("run", loud, env={"PYTHONIOENCODING": encoding, "LC_ALL": "C"})
    assert answer.returncode == 0
    assert (
        answer.stdout.encode("utf-8", "surrogateescape")
        .decode(encoding)
        .endswith({"ascii": "\\xe9 \\u2713\n", "latin-1": "é \\u2713\n", "utf-8": "é ✓\n"}[encoding])
    )


def test_json_is_utf_8_in_any_locale(loud: Path) -> None:
    answer = sandbox("run", loud, "--json", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert json.loads(answer.stdout)["value"] == "é ✓"


def test_tables_are_drawn_in_ascii_where_there_is_nothing_else() -> None:
    answer = sandbox("policy", "list", env={"PYTHONIOENCODING": "ascii"})
    assert answer.stdout.isascii()
    assert "default" in answer.stdout


def test_the_warden_is_no_child_that_a_signal_to_the_group_reaches(endless: Path) -> None:
    """Ctrl-C goes to the whole foreground group: it must be the engine that ends the box, in its order."""
    with start("run", endless, "--stream") as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task").glob("*/children")
        ours = [int(child) for file in children for child in file.read_text().split()]
        groups = {os.getpgid(child) for child in ours}
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=ENDS_WITHIN_S)
    assert ours
    assert os.getpgid(0) not in groups
