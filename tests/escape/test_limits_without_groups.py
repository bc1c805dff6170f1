"""Attack: use more than the limit where no control group counts, by being in no process when somebody looks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.escape.without_root import run_without_root

SHORT_LIVED: Final = """
import os, signal, time

def tool(seconds: float, unseen: bool) -> float:
    if unseen:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits, so no parent is charged with a child's time
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.fork() == 0:
            begun = time.process_time()
            while time.process_time() - begun < 0.2 and time.monotonic() < end:
                pass
            os._exit(0)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            pass
    return seconds
"""


@pytest.mark.slow
@pytest.mark.parametrize("unseen", [False, True])
def test_processor_time_of_short_lived_processes_counts(unseen: bool, unprivileged_python: Path) -> None:
    args = {"seconds": 4.0, "unseen": unseen}
    outcome = run_without_root(unprivileged_python, SHORT_LIVED, args, limits={"cpu": 1.0})
    assert (outcome["status"], outcome["limit_name"]) == ("limit", "cpu")


WIDEN: Final = """
import os

def tool() -> int:
    try:
        os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
    except OSError:
        pass
    return len(os.sched_getaffinity(0))
"""


@pytest.mark.slow
def test_a_tool_cannot_take_more_processors_than_its_receipt_says(unprivileged_python: Path) -> None:
    outcome = run_without_root(unprivileged_python, WIDEN, limits={"cpus": 1})
    assert outcome["status"] == "ok", outcome["error"]
    assert outcome["value"] == outcome["receipt"]["limits"]["cpus"]["value"] == 1
