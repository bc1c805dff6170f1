"""Without free descriptors, running calls go on, and new calls wait for the descriptors of others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from sandbox.protocol.frames import Stream
from sandbox.protocol.messages import BoxFault, ValueReply, parse_message
from tests.end_to_end.calls import wait_until
from tests.runners.plain_runner import Runner, plain_plan, start_runner

pytestmark = pytest.mark.slow

UNTIL_RELEASED: Final = """
import os
def tool(path):
    print("ready", flush=True)
    with open(path) as release:
        return release.read()
"""
QUICK: Final = "def tool():\n    return 'quick'\n"


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with start_runner(plain_plan(tmp_path)) as runner:
        runner.hear()
        yield runner


@pytest.fixture
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("release") / "pipe"
    os.mkfifo(path)
    return path


def test_a_call_that_cannot_be_forked_waits_for_the_end_of_one_that_runs(runner: Runner, release: Path) -> None:
    assert _value(runner, 1) == "quick"
    runner.call(2, UNTIL_RELEASED, arguments={"path": str(release)})
    runner.wait_for(2, Stream.STDOUT, b"ready")
    _let_have_no_more(runner)
    for id in (3, 4):
        runner.call(id, QUICK)
    runner.call(5, QUICK)
    runner.say({"type": "kill", "id": 5})
    ended = runner.wait(5)
    assert (ended.started, ended.ended and ended.ended.killed_by) == (None, "engine")
    assert (runner.calls[3].started, runner.calls[4].started) == (None, None)
    release.write_text("go on")
    assert [_value(runner, id) for id in (2, 3, 4)] == ["go on", "quick", "quick"]


def test_a_failed_fork_without_other_calls_reports_the_reason(tmp_path: Path) -> None:
    with start_runner(plain_plan(tmp_path)) as runner:
        runner.hear()
        assert _value(runner, 1) == "quick"
        assert wait_until(lambda: not psutil.Process(runner.pid).children())
        _let_have_no_more(runner)
        runner.say({"type": "call", "id": 2, "credit": 0, "limits": {}})  # the runner reads no more messages
        said = parse_message(runner.next_message())
        assert isinstance(said, BoxFault)
        assert (said.layer, "Too many open files" in said.reason) == ("processes", True)


def test_a_call_that_cannot_be_watched_for_want_of_descriptors_goes_on(tmp_path: Path, release: Path) -> None:
    watching = {"interval": 0.01, "memory": 1 << 40, "cpu": 60, "processes": 60}
    with start_runner(plain_plan(tmp_path, call={"watch": watching})) as runner:
        runner.hear()
        runner.call(1, UNTIL_RELEASED, arguments={"path": str(release)})
        runner.wait_for(1, Stream.STDOUT, b"ready")
        _let_have_no_more(runner, but=0)
        time.sleep(30 * watching["interval"])
        release.write_text("go on")
        assert _value(runner, 1) == "go on"


def _value(runner: Runner, id: int) -> object:
    if id not in runner.calls:
        runner.call(id, QUICK)
    reply = runner.wait(id).reply
    assert isinstance(reply, ValueReply), reply
    return reply.value


def _let_have_no_more(runner: Runner, *, but: int = 1) -> None:
    """Allow only the present descriptors, and the one that making the last pipe of a call takes."""
    process = psutil.Process(runner.pid)
    used = [int(number) for number in os.listdir(f"/proc/{runner.pid}/fd")]
    process.rlimit(psutil.RLIMIT_NOFILE, (max(used) + 1 + but, process.rlimit(psutil.RLIMIT_NOFILE)[1]))
