"""Calls for tests: tools to call, calls caught while they run, and what an engine has running for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from sandbox import Finished, Outcome, Sandbox

PATIENCE_S: Final = 20.0
READY: Final = "ready"
TRIVIAL: Final = "def add(a: int, b: int) -> int:\n    return a + b\n"
ENDLESS: Final = f"import time\ndef tool() -> None:\n    print({READY!r})\n    while True:\n        time.sleep(60)\n"
_AT_REST: Final = 2  # warden and zygote
_GROUPS: Final = Path("/sys/fs/cgroup")


def wait_until(condition: Callable[[], bool], *, within: float = PATIENCE_S) -> bool:
    """Whether it came to hold in time."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def serves(sandbox: Sandbox) -> bool:
    """Whether an ordinary call still does what it should."""
    outcome = sandbox.run(TRIVIAL, {"a": 1, "b": 2})
    return (outcome.status, outcome.value) == ("ok", 3)


def is_at_rest(engine: int | None = None) -> bool:
    """Whether nothing runs below the engine but its boxes, and in those nothing but children waiting for calls."""
    return all(
        len(_below(box)) < _AT_REST + 2 * 2 and not _tools_at_work(box) for box in psutil.Process(engine).children()
    )


def zygotes(engine: int | None = None) -> list[psutil.Process]:
    """The runner of each box, seen from outside."""
    return [zygote for warden in psutil.Process(engine).children() for zygote in warden.children()]


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _tools_at_work(box: psutil.Process) -> bool:
    """A waiting child is a guard and one process below it; anything else belongs to a call."""
    try:
        guards = [guard for zygote in box.children() for guard in zygote.children()]
        return any(len(guard.children(recursive=True)) > 1 for guard in guards)
    except psutil.NoSuchProcess:
        return True


def groups_of(engine: int) -> list[Path]:
    """The control groups that the engine made."""
    return [path for path in _GROUPS.rglob(f"sandbox-{engine}-*") if path.is_dir()]


@contextmanager
def under_way(sandbox: Sandbox, source: str, **fields: Any) -> Iterator[Future[Outcome]]:
    """A call that has printed `ready`, and its outcome to come."""
    begun: Future[None] = Future()

    def follow() -> Outcome:
        try:
            for event in sandbox.stream(source, **fields):
                if isinstance(event, Finished):
                    return event.outcome
                if not begun.done():
                    begun.set_result(None)
        except BaseException as error:
            if not begun.done():
                begun.set_exception(error)
            raise
        finally:
            if not begun.done():
                begun.set_exception(AssertionError("the call ended before it printed anything"))
        raise AssertionError("a stream ended without an outcome")

    with ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(follow)
        begun.result(PATIENCE_S)
        yield outcome
