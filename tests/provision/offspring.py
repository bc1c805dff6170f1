"""Run a command so that no process it starts outlives it.

On Linux this process becomes the subreaper: whatever the command orphans, however often it forked, turns up here as a
child. When the command has ended, its orphans get a moment to end by themselves, as boxes must when their engine is
gone; the rest is named, killed, and makes the run a failure. If this process is killed, the command is killed with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.provision import ROOT

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_GRACE_SECONDS = 60.0
_TESTED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Ending:
    exit_code: int
    left_running: tuple[str, ...]


def run(command: list[str]) -> Ending:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = _start(command)
    _pass_on_signals(child)
    exit_code = _wait_for(child)
    left_running = _end_orphans()
    return Ending(exit_code or (1 if left_running else 0), left_running)


def _start(command: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in _TESTED:  # a shell that starts a run in the background has it ignore these
            signal.signal(number, signal.SIG_DFL)
        os.chdir(ROOT)
        os.execv(command[0], command)
    finally:
        os._exit(127)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _pass_on_signals(child: int) -> None:
    """Interrupt the command when this process is asked to end. A terminal interrupts the command by itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(child, signal.SIGINT))


def _wait_for(child: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_orphans() -> tuple[str, ...]:
    _reap_for(_GRACE_SECONDS)
    left_running = tuple(_name(orphan) for orphan in _orphans())
    while orphans := _orphans():  # killing one can hand us its children
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
            os.waitpid(orphan, 0)
    return left_running


def _reap_for(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.01)


def _orphans() -> frozenset[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return frozenset(map(int, children.read_text().split())) if children.exists() else frozenset()


def _name(process: int) -> str:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = ""
    return f"{process} {command[:200]}".strip()
