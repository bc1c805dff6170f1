"""Attack: see, reach or signal a call that runs at the same time in the same box.

A box is shared by all calls of a tenant, so this is where two tools that know nothing of each other are nearest: one
zygote, one user, one interpreter. The neighbour makes itself known in every way it can think of, and sees itself that
it did; the attack is the same look from the other call.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from sandbox import Status
from sandbox.doctor.attacks.leftovers import KEPT_KINDS, MARKS, REFUSED_KINDS
from tests.escape.engines import Engine, call

HOLDS: Final = {"wall": 30}


@pytest.mark.slow
def test_nothing_of_a_neighbour_is_seen(engine: Engine) -> None:
    first, then = _calls(engine, MARKS, first="stay", then="look")
    said, outcome = engine.run_during(first, then)
    assert KEPT_KINDS - REFUSED_KINDS <= set(json.loads(said)) <= KEPT_KINDS
    assert (outcome.status, outcome.value) == (Status.OK, [])


@pytest.mark.slow
def test_a_neighbour_takes_none_of_our_names(engine: Engine) -> None:
    """Ports, sockets and keys that one call uses are free in the other."""
    first, then = _calls(engine, MARKS, first="stay", then="leave")
    _, outcome = engine.run_during(first, then)
    assert outcome.status is Status.OK, outcome.error
    assert isinstance(outcome.value, list)
    assert KEPT_KINDS - REFUSED_KINDS <= set(outcome.value) <= KEPT_KINDS


def _calls(engine: Engine, source: str, *, first: str, then: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return call(source, entry=first, limits=HOLDS), call(source, entry=then)


COUNT: Final = """
import os, time

def stay() -> None:
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(20)
    print("here", flush=True)
    time.sleep(20)

def look() -> dict:
    pids = sorted(int(pid) for pid in os.listdir("/proc") if pid.isdigit())
    namespaces = {kind: os.readlink("/proc/self/ns/" + kind) for kind in os.listdir("/proc/self/ns")}
    return {"pids": pids, "namespaces": namespaces, "box": open("/proc/self/uid_map").read().split()[1]}

def tell() -> None:
    import json
    print(json.dumps(look()), flush=True)
    time.sleep(20)
"""


def test_only_the_guard_and_the_tool_are_in_the_list_of_processes(engine: Engine) -> None:
    first, then = _calls(engine, COUNT, first="stay", then="look")
    _, outcome = engine.run_during(first, then)
    value: Any = outcome.value
    assert value["pids"] == [1, 2]


def test_two_calls_of_a_box_share_no_namespace(engine: Engine) -> None:
    """Both calls are in one box, as their user on the host shows, and have separate namespaces."""
    first, then = _calls(engine, COUNT, first="tell", then="look")
    said, outcome = engine.run_during(first, then)
    mine: Any = outcome.value
    theirs = json.loads(said)
    assert mine["box"] == theirs["box"]
    kinds = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
    assert [kind for kind in kinds if mine["namespaces"][kind] == theirs["namespaces"][kind]] == []
