"""Put a backend that ships with Sandbox to the contract: ``python -m sandbox.testing.contract BACKEND [CHECK...]``.

Prints a JSON object, the name of each check with null or what failed; exits with 1 when any did.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import psutil

from sandbox.backends import open_backend
from sandbox.backends.base import Box
from sandbox.testing.contract import CHECKS, Subject, try_all

_PATIENCE_S: Final = 30.0


def _kill_the_outermost(box: Box) -> None:
    inside = psutil.Process(_warden(box)).children(recursive=True)
    os.kill(_warden(box), signal.SIGKILL)
    _wait_dead(inside)


def _kill_the_runner(box: Box) -> None:
    inside = psutil.Process(_warden(box)).children(recursive=True)
    for process in inside[:1]:
        process.kill()
    _wait_dead(inside)


def _wait_dead(processes: Sequence[psutil.Process]) -> None:
    """Hold the event loop up until they are: so the engine cannot know yet, and cannot reach them any more."""
    deadline = time.monotonic() + _PATIENCE_S
    while any(_is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            raise AssertionError("the box does not die")
        time.sleep(0.001)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _warden(box: Box) -> int:
    from sandbox.backends.subprocess.box import SubprocessBox

    if not isinstance(box, SubprocessBox):
        raise TypeError(f"{type(box).__name__} has no warden")
    return box.warden


_LOSSES: Final[dict[str, tuple[Callable[[Box], None], ...]]] = {"subprocess": (_kill_the_runner, _kill_the_outermost)}


def subject(backend: str) -> Subject:
    """The backend of that name, and how its boxes are lost."""
    return Subject(lambda: open_backend(backend), losses=_LOSSES.get(backend, ()))


def main(arguments: Sequence[str]) -> int:
    """Try the checks named, or all."""
    backend, *wanted = arguments or ("subprocess",)
    checks = [check for check in CHECKS if not wanted or getattr(check, "__name__", "") in wanted]
    results = asyncio.run(try_all(subject(backend), checks))
    json.dump({result.name: result.failure for result in results}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return int(any(result.failure for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
