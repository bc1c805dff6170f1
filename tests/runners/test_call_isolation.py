"""The isolation that all calls of a box share is worked out once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from box import call_isolation

WALLED: Final[dict[str, Any]] = {
    "namespaces": ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"],
    "limits": {"open_files": 64, "data": 1 << 30},
    "held": 1 << 20,
    "cpus": [0],
    "user": [1000, 1000],
    "outside": [1000, 1000],
    "workplace": {"path": "/tmp", "size": 1 << 20, "inodes": 16},
    "landlock": {"execute": ["/"], "write": ["/dev"], "network": True},
    "filter": b"\x06\x00\x00\x00\x00\x00\xff\x7f",
}


@contextmanager
def prepared(**changes: Any) -> Iterator[dict[str, Any]]:
    plan = {**WALLED, **changes}
    call_isolation.prepare(plan)
    try:
        yield plan
    finally:
        for number in plan["handed"]:
            os.close(number)


def test_shared_isolation_is_recorded_once() -> None:
    with prepared() as plan:
        assert plan["written"] is not None


def test_recorded_isolation_lasts_until_the_held_memory_changes() -> None:
    with prepared() as plan:
        first = plan["written"]
        call_isolation.prepare(plan)
        assert plan["written"] is first
        plan["held"] += 1
        call_isolation.prepare(plan)
        assert plan["written"] is not first


def test_a_call_with_its_own_folder_is_isolated_without_a_record() -> None:
    with prepared(namespaces=[], workplace=None) as plan:
        assert plan.get("written") is None


def test_an_error_while_recording_is_left_to_the_call() -> None:
    with prepared(landlock={"execute": ["/nothing"], "write": [], "network": True}) as plan:
        assert plan["written"] is None
