"""Attack: use more than the limit where no control group counts, by being in no process when the watch looks.

Without a control group, no layer prevents this attack, and the receipt says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.escape.without_root import run_without_root

SHORT_LIVED: Final = """
import os, signal, time

def tool(children: int, unseen: bool) -> int:
    if unseen:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits, so no parent is charged with a child's time
    for _ in range(children):
        if os.fork() == 0:
            while time.process_time() < 0.2:
                pass
            os._exit(0)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            pass
    return children
"""


WATCHED: Final = ("watcher", "does not count processes that ended unless their parent waited for them")


@pytest.mark.slow
@pytest.mark.parametrize("unseen", [False, True])
def test_time_of_short_lived_processes_counts_or_the_receipt_says_so(unseen: bool, unprivileged_python: Path) -> None:
    args = {"children": 15 if unseen else 50, "unseen": unseen}  # where it counts, it ends as soon as it is used
    outcome = run_without_root(unprivileged_python, SHORT_LIVED, args, limits={"cpu": 1.0})
    state = outcome["receipt"]["limits"]["cpu"]
    is_admitted = unseen and (state["enforced_by"], state["note"]) == WATCHED
    assert is_admitted or (outcome["status"], outcome["limit_name"]) == ("limit", "cpu"), state


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
def test_a_tool_that_can_take_more_processors_has_a_receipt_that_says_so(unprivileged_python: Path) -> None:
    outcome = run_without_root(unprivileged_python, WIDEN, limits={"cpus": 1})
    assert outcome["status"] == "ok", outcome["error"]
    state = outcome["receipt"]["limits"]["cpus"]
    assert state["value"] == 1
    assert outcome["value"] == 1 or state["enforced_by"] in ("advisory", "cgroup"), state
