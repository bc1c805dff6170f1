"""Several engines on one machine do not disturb each other."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Final

import pytest

from sandbox import BoxLost, Sandbox
from sandbox.policy import load
from tests.checkout import ROOT
from tests.end_to_end.calls import PATIENCE_S, TRIVIAL, lose_vacant_children, serves, under_way, wait_until

A_WHILE: Final = """
import time
def tool() -> str:
    print("ready")
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        time.sleep(0.01)
    return "undisturbed"
"""


@pytest.mark.slow
def test_an_engine_that_starts_leaves_another_processs_boxes_alone() -> None:
    script = (
        f"from sandbox import Sandbox\nwith Sandbox() as engine: print(engine.run({TRIVIAL!r}, dict(a=1, b=2)).value)"
    )
    with Sandbox() as engine, under_way(engine, A_WHILE) as outcome:
        other = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
        assert other.stdout.strip() == "3"
        assert outcome.result(PATIENCE_S).value == "undisturbed"


@pytest.mark.root
@pytest.mark.slow
def test_engines_in_two_pid_namespaces_leave_each_others_boxes_alone() -> None:
    inside = ("unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c")
    held = (
        f"from sandbox import Sandbox\nwith Sandbox() as engine:\n    engine.prepare({TRIVIAL!r})\n    print('up', "
        f"flush=True)\n    input()\n    print(engine.run({TRIVIAL!r}, dict(a=1, b=2)).value, flush=True)"
    )
    with (
        Sandbox() as engine,
        under_way(engine, A_WHILE) as outcome,
        subprocess.Popen([*inside, held], cwd=ROOT, text=True, stdin=PIPE, stdout=PIPE) as other,
    ):
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        with Sandbox() as third:
            assert serves(third)
        assert other.communicate("\n", timeout=PATIENCE_S)[0] == "3\n"
        assert outcome.result(PATIENCE_S).value == "undisturbed"


@pytest.mark.root
@pytest.mark.slow
def test_a_slot_that_lost_its_control_group_is_reported_and_replaced() -> None:
    policy = load("default")
    one_by_one = policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})
    with Sandbox() as engine:
        assert engine.run(TRIVIAL, {"a": 1, "b": 2}, policy=one_by_one).value == 3
        lose_vacant_children()  # a vacant child would be in one of the groups
        slots = [*Path("/sys/fs/cgroup").glob(f"**/sandbox-{os.getpid()}-*/*/[0-9]*/")]
        assert slots
        assert wait_until(lambda: all(map(_is_removed, slots)))
        with pytest.raises(BoxLost, match="group cannot be entered") as lost:
            engine.run(TRIVIAL, {"a": 1, "b": 2}, policy=one_by_one)
        assert lost.value.remedy
        assert engine.run(TRIVIAL, {"a": 1, "b": 2}, policy=one_by_one).value == 3


@pytest.mark.slow
def test_two_engines_of_one_process_close_apart() -> None:
    with Sandbox() as first, under_way(first, A_WHILE) as outcome:
        with Sandbox() as second:
            assert serves(second)
        assert outcome.result(PATIENCE_S).value == "undisturbed"


def _is_removed(group: Path) -> bool:
    """Whether it could be removed now: a call that is over may still be leaving it."""
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
