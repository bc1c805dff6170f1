"""Calls for tests: tools to call, calls caught while they run, and what an engine has running for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from sandbox import Finished, Outcome, Sandbox

PATIENCE_S: Final = 60.0
READY: Final = "ready"
TRIVIAL: Final = "def add(a: int, b: int) -> int:\n    return a + b\n"
ENDLESS: Final = f"""
import sys, time
def tool() -> None:
    sys.stdout.write({READY!r} + "\\n")  # at once: print writes twice, and the runner may be stopped in between
    while True:
        time.sleep(60)
"""
_MAX_AT_REST: Final = 6  # below a warden: the zygote, two children ahead of calls with a guard each, a vacant guard
_RUNNER: Final = "runners/python/__main__.py"
_GROUPS: Final = "/sys/fs/cgroup"


def wait_until(condition: Callable[[], bool], *, within: float = PATIENCE_S) -> bool:
    """Whether it came to hold in time."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def out_of_time(sandbox: Sandbox, source: str, *, first_s: float = 0.4, **limits: int) -> Outcome:
    """The outcome of a call that ends at its time, of which it has more if it printed nothing in so little: then it had
    not begun, as may be on a busy machine."""
    for wall in (first_s, 4.0, 20.0):
        outcome = sandbox.run(source, limits={"wall": wall, **limits})
        if outcome.stdout.text:
            break
    return outcome


def serves(sandbox: Sandbox) -> bool:
    """Whether an ordinary call still does what it should."""
    outcome = sandbox.run(TRIVIAL, {"a": 1, "b": 2})
    return (outcome.status, outcome.value) == ("ok", 3)


def is_at_rest() -> bool:
    """Whether nothing runs in this process's boxes but children waiting for calls."""
    return all(_count_awake(box) <= _MAX_AT_REST for box in _wardens()) and not is_at_work()


def _count_awake(warden: psutil.Process) -> int:
    """Count the processes of a box without its template, the one stopped process that the zygote keeps to fork from."""
    templates = [child for zygote in _children(warden) for child in _children(zygote) if _is_template(child)]
    return len(_below(warden)) - bool(templates)


def _is_template(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_STOPPED and not _children(process)
    except psutil.NoSuchProcess:
        return False


def is_at_work() -> bool:
    """Whether a call has more than one process: a child that waits for one is a guard with a single process below."""
    return any(len(_below(guard)) > 1 for zygote in zygotes() for guard in _children(zygote))


def zygotes() -> list[psutil.Process]:
    """The runner of each box of this process's engines, seen from outside."""
    return [zygote for warden in _wardens() for zygote in _children(warden)]


def vacant() -> list[psutil.Process]:
    """The guards that have no process below them, now and a moment later: those that wait for a call to fork one."""
    found = [guard for zygote in zygotes() for guard in _children(zygote) if not _children(guard)]
    time.sleep(0.1)
    return [guard for guard in found if guard.is_running() and not _children(guard)]


def lose_vacant_children() -> None:
    """Kill them until no more are made."""
    while wait_until(lambda: bool(vacant()), within=0.5):
        for guard in vacant():
            guard.kill()


def all_of_boxes() -> list[psutil.Process]:
    """Every process of this process's boxes."""
    return [process for warden in _wardens() for process in (warden, *_below(warden))]


def _wardens() -> list[psutil.Process]:
    """The outermost process of each box; the tests may have started other things, such as a Docker daemon."""
    return [child for child in _children(psutil.Process()) if _is_runner(child)]


def _is_runner(process: psutil.Process) -> bool:
    try:
        return any(word.endswith(_RUNNER) for word in process.cmdline())
    except psutil.Error:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    """List the children as the kernel knows them: psutil reads the status of every process of the machine for that."""
    tasks = Path("/proc", str(process.pid), "task")
    try:
        if not tasks.exists():
            return process.children()
        numbers = [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    except (psutil.NoSuchProcess, OSError):
        return []
    return [child for number in numbers if (child := _process(number))]


def _process(number: int) -> psutil.Process | None:
    try:
        return psutil.Process(number)
    except psutil.NoSuchProcess:
        return None


def _below(process: psutil.Process) -> list[psutil.Process]:
    return [each for child in _children(process) for each in (child, *_below(child))]


def groups_of(engine: int) -> list[str]:
    """The control groups that the engine made."""
    found = []
    for folder, names, _ in os.walk(_GROUPS):
        found += [os.path.join(folder, name) for name in names if name.startswith(f"sandbox-{engine}-")]
        names[:] = [name for name in names if not name.startswith("sandbox-")]
    return found


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
