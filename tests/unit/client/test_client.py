"""An unfinished stream blocks no caller, whenever and wherever the garbage collector finds it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from sandbox import EngineClosed, Finished, Printed, RequirementRefused, Sandbox, SpecError
from sandbox.client.stream import Event
from sandbox.policy import Supply, load
from sandbox.testing import FakeBackend, hangs, prints, script

SOURCE: Final = "def tool():\n    pass\n"
TOOL: Final = "def tool(hang: bool):\n    pass\n"
FORBIDS_SIX: Final = load("default").model_copy(update={"name": "own", "supply": Supply(deny=("six",))})
PATIENCE_S: Final = 60.0
LEFT: Final = """
from sandbox import Sandbox
from sandbox.testing import FakeBackend, hangs, prints, script

sandbox = Sandbox(backend=FakeBackend({"tool": script(prints("here"), hangs())}))
stream = sandbox.stream("def tool():\\n    pass\\n")
print(next(stream).text, flush=True)
"""
FORK: Final = """
import os
child = os.fork()
if child == 0:
    stream.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def _sandbox() -> Sandbox:
    """Return a sandbox that runs a single call at a time, so that the second ends only after the first."""
    return Sandbox(
        backend=FakeBackend({"tool": lambda hang: script(prints("a\n"), hangs()) if hang else 1}), concurrency=1
    )


def _begun(sandbox: Sandbox) -> Iterator[Event]:
    stream = sandbox.stream(TOOL, {"hang": True})
    assert isinstance(next(stream), Printed)
    return stream


@contextmanager
def _collected_only_on_request() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _WhereCtrlCComes:
    """A lock whose acquisition Ctrl-C interrupts."""

    def __enter__(self) -> None:
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        """Do nothing, because the lock is never entered."""


ODD: Final[dict[str, dict[str, Any]]] = {
    "concurrency must be a whole number of at least 1, not '3'": {"concurrency": "3"},
    "concurrency must be a whole number of at least 1, not 0": {"concurrency": 0},
    "concurrency must be a whole number of at least 1, not 1.5": {"concurrency": 1.5},
    "warm_memory must be a whole number of at least 0, not None": {"warm_memory": None},
    "the store cannot be 5": {"store": 5},
    "artifacts cannot be kept in 5": {"artifact_store": 5},
    "there is no backend 5": {"backend": 5},
}


@pytest.mark.parametrize("told", ODD)
def test_invalid_options_of_a_sandbox_are_explained(told: str) -> None:
    with pytest.raises(SpecError, match=told), Sandbox(**ODD[told]) as sandbox:
        sandbox.prepare(TOOL)


def test_an_invalid_lock_is_explained() -> None:
    lock: Any = {"packages": []}
    with _sandbox() as sandbox, pytest.raises(SpecError, match="lock must be a Lock, not dict") as told:
        sandbox.build(lock=lock)
    assert "model_validate_json" in str(told.value.remedy)


def test_ctrl_c_during_the_handover_of_a_call_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with _sandbox() as sandbox:
        with monkeypatch.context() as patched:
            patched.setattr(sandbox._background, "_lock", _WhereCtrlCComes())
            with pytest.raises(KeyboardInterrupt):
                sandbox.run(TOOL, {"hang": False})
        gc.collect()  # a coroutine that was never awaited is a warning, and warnings are errors
        assert sandbox.run(TOOL, {"hang": False}).value == 1


@pytest.mark.parametrize("unset", [{}, {"policy": None}], ids=["left out", "None"])
def test_a_call_without_a_policy_gets_that_of_the_engine(unset: dict[str, Any]) -> None:
    with Sandbox(backend=FakeBackend({"tool": 1}), policy=FORBIDS_SIX) as sandbox:
        outcomes = [sandbox.run(SOURCE, **unset), *sandbox.map(SOURCE, [{}, {}], **unset)]
        *_, finished = sandbox.stream(SOURCE, **unset)
        assert isinstance(finished, Finished)
        names = [each.receipt.policy.name for each in (*outcomes, finished.outcome) if each.receipt]
        assert names == ["own"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("unset", [{}, {"policy": None}], ids=["left out", "None"])
def test_packages_denied_by_the_engines_policy_are_not_installed(unset: dict[str, Any]) -> None:
    with Sandbox(policy=FORBIDS_SIX, offline=True) as sandbox:
        for asked in (sandbox.lock, sandbox.build):
            with pytest.raises(RequirementRefused, match="six"):
                asked(requirements=["six==1.16.0"], **unset)


def test_an_interrupted_close_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = _sandbox()
    sandbox.run(TOOL, {"hang": False})
    background, may_go_on = sandbox._background, threading.Event()

    async def end() -> None:
        await asyncio.to_thread(may_go_on.wait)
        await sandbox._inner.close()

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "run_coroutine_threadsafe", _InterruptedOnce)
        with pytest.raises(KeyboardInterrupt):
            background.close(end)
    assert not background.loop.is_closed()
    closing = [threading.Thread(target=sandbox.close) for _ in range(2)]
    for thread in closing:
        thread.start()
    may_go_on.set()
    for thread in closing:
        thread.join(PATIENCE_S)
    assert background.loop.is_closed()
    sandbox.close()


class _InterruptedOnce:
    """Work on a loop whose first waiter meets Ctrl-C."""

    _begin = staticmethod(asyncio.run_coroutine_threadsafe)

    def __init__(self, work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._future = self._begin(work, loop)
        self._has_come = False
        self.done = self._future.done

    def result(self) -> None:
        if not self._has_come:
            self._has_come = True
            raise KeyboardInterrupt
        self._future.result()


def _drop(stream: Iterator[Event]) -> None:
    """Drop the last reference, so that only the collector can find the stream."""
    ring: list[object] = [stream]
    ring.append(ring)


def _done_on(sandbox: Sandbox, work: Callable[[], object]) -> bool:
    """Return whether the sandbox's own thread has done the work soon."""
    done = threading.Event()

    def work_and_tell() -> None:
        work()
        done.set()

    sandbox._background.loop.call_soon_threadsafe(work_and_tell)
    return done.wait(PATIENCE_S)


def test_a_stream_collected_on_the_sandbox_thread_ends_its_call() -> None:
    with _sandbox() as sandbox, _collected_only_on_request():
        _drop(_begun(sandbox))
        assert _done_on(sandbox, gc.collect)
        assert sandbox.run(TOOL, {"hang": False}).value == 1


def test_a_stream_closed_on_the_sandbox_thread_ends_its_call() -> None:
    with _sandbox() as sandbox:
        stream = sandbox.stream(TOOL, {"hang": True})
        next(stream)
        assert _done_on(sandbox, stream.close)
        assert sandbox.run(TOOL, {"hang": False}).value == 1


@pytest.mark.parametrize("is_collected", [False, True])
def test_a_stream_that_outlives_its_sandbox_ends_in_silence(is_collected: bool) -> None:
    with _collected_only_on_request():
        with _sandbox() as sandbox:
            stream = _begun(sandbox)
        if is_collected:
            _drop(stream)
        del stream  # an exception here would be a warning, and warnings are errors
        gc.collect()


def test_a_stream_of_a_closed_sandbox_raises_once() -> None:
    with _sandbox() as sandbox:
        stream = _begun(sandbox)
    with pytest.raises(EngineClosed) as caught:
        next(stream)
    assert caught.value.__context__ is None
    assert list(stream) == []


def test_waiting_for_a_stream_fails_when_the_sandbox_is_closed() -> None:
    sandbox, ends = _sandbox(), []
    stream = _begun(sandbox)

    def read() -> None:
        try:
            next(stream)
        except EngineClosed as error:
            ends.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    sandbox.close()
    reader.join(PATIENCE_S)
    assert (reader.is_alive(), len(ends)) == (False, 1)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", FORK])
def test_a_program_that_ends_or_forks_during_a_stream_ends(ending: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", LEFT + ending]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "here\n", "")
