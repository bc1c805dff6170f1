"""Children on direct pipes: forked ahead, called by the engine, and watched by the runner."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from sandbox.protocol import frames
from sandbox.protocol.messages import Ended, Gone, Ready, RunnerMessage, Surplus, parse_message
from tests.runners.plain_runner import PATIENCE_SECONDS, Runner, plain_plan, start_runner_on_a_socket
from zygote.child import Child
from zygote.prefork import QUIET_S, IdleChildren

SOURCE: Final = "import sys\ndef tool(a):\n    print('out')\n    print('err', file=sys.stderr)\n    return a + 1\n"


class EngineEnds:
    """The engine's ends of a set of direct pipes."""

    def __init__(self) -> None:
        pairs = [os.pipe()[::direction] for direction in (-1, 1, 1, 1)]
        (self.request, self.stdout, self.stderr, self.value), far = zip(*pairs, strict=True)
        self.far = list(far)

    def call(self, source: str, **arguments: Any) -> None:
        request = {
            "source": source,
            "filename": "tool.py",
            "entry": "tool",
            "arguments": arguments,
            "positional": [],
            "environment": {"PATH": os.defpath},
            "value_limit": 1 << 20,
        }
        os.write(self.request, frames.pack_sized(b"{}") + frames.pack_sized(json.dumps(request).encode()))

    def close_request(self) -> None:
        os.close(self.request)
        self.request = -1


@contextmanager
def _direct_pipes(runner: Runner, id: int) -> Iterator[EngineEnds]:
    near = EngineEnds()
    runner.send(frames.pack_message({"type": "lines", "lines": [id]}), near.far)
    for end in near.far:
        os.close(end)
    try:
        yield near
    finally:
        for end in (near.request, near.stdout, near.stderr, near.value):
            if end >= 0:
                os.close(end)


def _hear(runner: Runner) -> RunnerMessage:
    said = runner.next_message()
    return parse_message(said)


def _end_of_call(runner: Runner) -> Ended | Gone:
    """Return the end of a short call, whether or not the runner had heard of the call by then."""
    said = _hear(runner)
    assert isinstance(said, Ended | Gone)
    return said


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with start_runner_on_a_socket(plain_plan(tmp_path, lines=True, ahead=1)) as runner:
        runner.hear()
        yield runner


def _all(descriptor: int) -> bytes:
    data = b""
    while more := os.read(descriptor, 1 << 16):
        data += more
    return data


@pytest.mark.slow
def test_a_child_on_direct_pipes_is_called_without_the_runner(runner: Runner) -> None:
    with _direct_pipes(runner, 5) as near:
        ready = _hear(runner)
        assert isinstance(ready, Ready)
        assert (ready.line, ready.slot) == (5, None)
        assert json.loads(ready.walls)["walls"]["limits"]["open_files"] == 256
        near.call(SOURCE, a=1)
        runner.say({"type": "call", "id": 1, "line": 5, "credit": 0, "limits": {}})
        ended = _end_of_call(runner)
        assert (ended.exit_code, ended.killed_by) == (0, None)
        assert (_all(near.stdout), _all(near.stderr)) == (b"out\n", b"err\n")
        reply = _all(near.value)
        assert json.loads(reply[4:]) == {"kind": "value", "warnings": [], "value": 2}


@pytest.mark.slow
def test_a_call_on_direct_pipes_is_killed_like_any_other(runner: Runner) -> None:
    with _direct_pipes(runner, 5) as near:
        _hear(runner)
        near.call("import time\ndef tool():\n    print('here', end='', flush=True)\n    time.sleep(600)\n")
        assert os.read(near.stdout, 9) == b"here"
        runner.say({"type": "call", "id": 1, "line": 5, "credit": 0, "limits": {}})
        runner.say({"type": "kill", "id": 1})
        ended = _hear(runner)
        assert isinstance(ended, Ended)
        assert (ended.id, ended.killed_by) == (1, "engine")
        assert _all(near.value) == b""


@pytest.mark.slow
def test_closing_direct_pipes_dismisses_their_child(runner: Runner) -> None:
    with _direct_pipes(runner, 5) as near:
        _hear(runner)
        near.close_request()
        gone = _hear(runner)
        assert isinstance(gone, Gone)
        assert (gone.line, gone.exit_code) == (5, 0)
    with _direct_pipes(runner, 6):
        ready = _hear(runner)
        assert isinstance(ready, Ready)
        assert ready.line == 6


def _kill_children(runner: Runner) -> None:
    for process in psutil.Process(runner.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # descendants die with their ancestor
            process.kill()


@pytest.mark.slow
def test_a_child_that_is_killed_from_outside_is_gone(runner: Runner) -> None:
    with _direct_pipes(runner, 5):
        _hear(runner)
        _kill_children(runner)
        gone = _hear(runner)
        assert isinstance(gone, Gone)
        assert gone.line == 5


@pytest.mark.slow
def test_a_call_that_ends_before_its_message_is_reported_as_gone(runner: Runner) -> None:
    for number in range(5):  # more than may be lost
        with _direct_pipes(runner, number) as near:
            assert isinstance(_hear(runner), Ready)
            near.call("import os\ndef tool():\n    os._exit(7)\n")
            gone = _hear(runner)
            assert isinstance(gone, Gone)
            assert (gone.line, gone.exit_code, gone.killed_by) == (number, 7, None)
            runner.say({"type": "call", "id": 1, "line": number, "credit": 0, "limits": {}})


@pytest.mark.slow
def test_a_child_without_new_preloads_is_left_to_the_engine(runner: Runner) -> None:
    with _direct_pipes(runner, 5) as near:
        _hear(runner)
        runner.say({"type": "preload", "modules": ["colorsys"]})
        assert _hear(runner) == Surplus(type="surplus", line=5, wanted=1)
        near.call(SOURCE, a=41)
        runner.say({"type": "call", "id": 1, "line": 5, "credit": 0, "limits": {}})
        assert _end_of_call(runner).exit_code == 0
        assert b"42" in _all(near.value)


@pytest.mark.slow
def test_a_call_without_direct_pipes_goes_through_the_runner(runner: Runner) -> None:
    with _direct_pipes(runner, 5):
        _hear(runner)
        seen = runner.run("def tool():\n    print('out')\n    return 1\n")
        assert (seen.stdout, seen.started and seen.started.ahead) == (b"out\n", False)


@pytest.mark.slow
def test_no_child_is_forked_ahead_without_direct_pipes(runner: Runner) -> None:
    seen = runner.run("import os\ndef tool():\n    return os.getppid()\n")
    assert seen.ended is not None
    left = psutil.Process(runner.pid).children(recursive=True)
    assert psutil.wait_procs(left, timeout=PATIENCE_SECONDS)[1] == []


@pytest.mark.slow
def test_the_runner_keeps_no_end_of_direct_pipes_after_the_fork(runner: Runner) -> None:
    with _direct_pipes(runner, 5) as near:
        _hear(runner)
        _kill_children(runner)
        assert (_all(near.stdout), _all(near.stderr), _all(near.value)) == (b"", b"", b"")


def test_an_unwanted_child_does_not_count_as_lost() -> None:
    spares = IdleChildren(limit=1)
    for _ in range(9):
        child = Child(1, 3, 4, slot=None, home=None, ahead=True)
        spares.add(child)
        assert spares.take_all() == [child]
        spares.lose(child)
        spares.release(child)
    assert spares.needs_more


def _spare(pid: int) -> Child:
    return Child(pid, -1, -1, slot=None, home=None, ahead=True)


class Clock:
    """A substitute for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("zygote.prefork.time", clock)
    return clock


def test_a_quiet_time_removes_the_last_child_and_a_call_restores_it(
    clock: Clock,
) -> None:
    kept = IdleChildren(limit=2)
    for pid in range(20):  # each call finds one, and each comes soon
        kept.add(_spare(pid))
        clock.now += QUIET_S - 1
        assert kept.take_unwanted() == []
        assert kept.take() is not None
    kept.add(_spare(20))
    assert kept.may_shrink
    clock.now += QUIET_S + 1
    (gone,) = kept.take_unwanted()
    kept.lose(gone)
    assert (gone.pid, kept.wanted, kept.needs_more, kept.may_shrink) == (20, 0, False, False)
    assert kept.take() is None
    assert (kept.wanted, kept.needs_more) == (1, True)


def test_idle_children_shrink_with_demand_and_all_go_when_quiet(clock: Clock) -> None:
    kept = IdleChildren(limit=3)
    for pid in range(3):
        kept.miss()
        kept.add(_spare(pid))
    for _ in range(5):  # a call now and then
        called = kept.take()
        assert called is not None
        kept.add(called)
        clock.now += QUIET_S - 1
        for gone in kept.take_unwanted():
            kept.lose(gone)
    assert kept.wanted == len([*kept]) == 1
    for pid in (8, 9):
        kept.miss()
        kept.add(_spare(pid))
    clock.now += QUIET_S + 1
    assert len(kept.take_unwanted()) == 3
    assert kept.wanted == 0


def test_a_child_that_was_called_before_its_removal_is_replaced(clock: Clock) -> None:
    kept = IdleChildren(limit=1)
    kept.add(_spare(1))
    clock.now += QUIET_S + 1
    (called,) = kept.take_unwanted()
    kept.release(called)
    assert kept.needs_more


def test_a_single_use_box_keeps_its_child_until_the_call(clock: Clock) -> None:
    kept = IdleChildren(limit=1, single_use=True)
    kept.add(_spare(1))
    clock.now += 100 * QUIET_S
    assert (kept.take_unwanted(), kept.may_shrink) == ([], False)


def test_a_single_use_box_forks_no_child_after_its_call() -> None:
    spares = IdleChildren(limit=1, single_use=True)
    assert spares.needs_more
    spares.add(_spare(1))
    spares.lose(_spare(2))
    assert spares.take() is not None
    assert not spares.needs_more


def test_a_single_use_box_forks_none_ahead_if_the_call_came_first() -> None:
    spares = IdleChildren(limit=1, single_use=True)
    assert spares.take() is None
    assert not spares.needs_more


def test_a_half_started_child_is_kept_after_a_miss_until_quiet(clock: Clock) -> None:
    kept = IdleChildren(limit=0, half_started=True)
    assert (kept.needs_half_started, kept.take()) == (False, None)
    for pid in range(3):
        assert kept.needs_half_started
        kept.add_half_started(_spare(pid))
        assert (bool(kept), kept.needs_half_started, kept.may_shrink) == (True, False, True)
        clock.now += QUIET_S - 1
        assert kept.take_unwanted() == []
        found = kept.miss()
        assert found is not None
        assert found.pid == pid
    kept.add_half_started(_spare(3))
    clock.now += QUIET_S + 1
    (gone,) = kept.take_unwanted()
    kept.lose(gone)
    assert (gone.pid, bool(kept), kept.needs_half_started, kept.needs_more) == (3, False, False, False)


def test_half_started_children_that_die_are_replaced_a_few_times() -> None:
    kept = IdleChildren(limit=1, half_started=True)
    kept.miss()
    ahead, there = _spare(1), _spare(2)
    kept.add(ahead)
    kept.add_half_started(there)
    assert kept.take_all() == [ahead, there]
    for pid in range(3):
        lost = _spare(pid)
        kept.add_half_started(lost)
        kept.lose(lost)
    assert not kept.needs_half_started


def test_no_half_started_child_in_single_use_boxes_or_if_disallowed() -> None:
    for kept in (IdleChildren(limit=1), IdleChildren(limit=1, single_use=True, half_started=True)):
        kept.miss()
        assert not kept.needs_half_started


@pytest.mark.slow
def test_a_single_use_box_has_its_child_before_the_call_and_no_other(tmp_path: Path) -> None:
    with start_runner_on_a_socket(plain_plan(tmp_path, lines=True, ahead=1, single_use=True)) as runner:
        runner.hear()
        with _direct_pipes(runner, 5) as near, _direct_pipes(runner, 6):
            assert isinstance(_hear(runner), Ready)
            near.call(SOURCE, a=41)
            runner.say({"type": "call", "id": 1, "line": 5, "credit": 0, "limits": {}})
            assert _end_of_call(runner).exit_code == 0
            assert b"42" in _all(near.value)
            seen = runner.run("def tool():\n    return 1\n")
            assert (seen.started and seen.started.ahead) is False


@pytest.mark.slow
def test_a_call_gets_the_last_slot_from_an_idle_child(tmp_path: Path) -> None:
    plan = plain_plan(tmp_path, slots=True, lines=True, ahead=1, single_use=True)
    with start_runner_on_a_socket(plan) as runner:
        runner.hear()
        runner.say({"type": "slots", "slots": [[7, 0]]})
        with _direct_pipes(runner, 5) as near:
            assert isinstance(_hear(runner), Ready)
            runner.call(1, "def tool():\n    return 1\n")
            assert isinstance(_hear(runner), Surplus)
            near.close_request()
            assert isinstance(_hear(runner), Gone)
            runner.say({"type": "release", "slot": 7, "retire": False})
            started = runner.wait(1).started
            assert (started and started.slot) == 7
