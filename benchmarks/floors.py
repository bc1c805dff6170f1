"""The floors: the comparisons of the engine, each measured by a small process of its own.

`fork` is the measured call without isolation or engine, in a small Python: `os.pipe`, `os.fork`, a child that adds two
numbers and writes the sum as a JSON document, and a parent that reads the document and waits for the child. `mute` is
the same without a call: a Python that has imported nothing, and a child that writes two bytes. No sandbox with a
process per call can be cheaper, unless the process exists before the call. `spawn` is `subprocess.run` of an
interpreter that prints one JSON document: the cheapest call without forks. `walled` is a fork with the isolation of the
default policy, except for control groups, and `guarded` is the same with a fork below it: the kernel's share of a call
on demand, without and with a guard next to the tool. `waiting` is an isolated process that exists before its call, and
an event loop that sends the call and waits for the reply: the cost of a call forked ahead, without an engine.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from benchmarks.calls import ARGUMENTS, SOURCE
from sandbox.backends.isolation import TOOL_USER, namespaces, process_limits, system_call_filter
from sandbox.backends.seccomp_profiles import Sockets
from sandbox.backends.subprocess.backend import runner_folder
from sandbox.engine.request import build_request
from sandbox.environments import bare_environment
from sandbox.policy import load
from sandbox.spec import call_spec
from sandbox.tools import read_tool

BARE_FORK: Final = "bare fork and pipe"
MUTE_FORK: Final = "bare fork and pipe, two bytes for an answer"
FRESH_PYTHON: Final = "subprocess.run of a fresh python"
WALLED_FORK: Final = "a bare fork behind the same walls"
WALLED_FORKS: Final = "two bare forks behind the same walls"
WAITING_CHILD: Final = "a waiting child behind the same walls"

_PROGRAM: Final = Path(__file__).with_name("floor_program.py")
_WAITING_PROGRAM: Final = Path(__file__).with_name("waiting_program.py")


class Floor:
    """The process of a floor, ready to measure."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def measure(self) -> float:
        """Return the milliseconds of another measurement, as the floor's own process counts them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    async def measure_in_turn(self) -> float:
        """Measure as a case among others, and block the event loop, so that the engine is idle meanwhile."""
        return self.measure()


@contextmanager
def open_floor(kind: Literal["fork", "mute", "spawn", "walled", "guarded", "waiting"]) -> Iterator[Floor]:
    """Start a floor, and end it with the block."""
    python = str(bare_environment().python)
    command = [python, "-I", "-S", "-B", *_find_program(kind, python)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Floor(process)


def _find_program(kind: str, python: str) -> list[str]:
    if kind in ("fork", "mute", "spawn"):
        return [str(_PROGRAM), kind, python]
    given = [str(runner_folder()), json.dumps(_build_isolation())]
    return [str(_WAITING_PROGRAM), *given, _build_request()] if kind == "waiting" else [str(_PROGRAM), kind, *given]


def _build_request() -> str:
    """Return the measured call as the request that its process reads."""
    spec = call_spec({"source": SOURCE, "args": ARGUMENTS})
    return build_request(spec, read_tool(SOURCE, filename=spec.filename), ARGUMENTS, load("default")).decode()


def _build_isolation() -> dict[str, object]:
    """Return the isolation that a guard of the default policy sets up, where the whole file system of the host is
    readable."""
    policy = load("default")
    return {
        "namespaces": namespaces(policy),
        "user": list(TOOL_USER),
        "outside": [os.geteuid(), os.getegid()],
        "limits": process_limits(policy, is_metered=True),
        "held": 0,
        "cpus": [],
        "workplace": {"path": "/tmp", "size": policy.limits.disk, "inodes": policy.limits.inodes},
        "landlock": {"execute": ["/"], "write": ["/tmp", "/dev", "/proc"], "network": True},
        "filter": system_call_filter("tool", Sockets.INTERNET),
    }
