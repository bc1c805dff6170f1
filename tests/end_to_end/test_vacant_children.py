"""The vacant child of a box: a guard behind its walls that waits for a call to fork the tool's process for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import psutil
import pytest

from sandbox import Policy, Sandbox
from sandbox.policy import load
from tests.end_to_end.calls import (
    PATIENCE_S,
    lose_vacant_children,
    serves,
    under_way,
    vacant,
    wait_until,
)

pytestmark = pytest.mark.slow

A_WHILE: Final = """
import time
def tool() -> str:
    print("ready", flush=True)
    time.sleep(1)
    return "done"
"""
OF_ITS_OWN: Final = ("user", "mnt", "pid", "net", "ipc")


@pytest.fixture
def engine() -> Iterator[Sandbox]:
    """Open an engine that forks nothing ahead and has served a call."""
    with Sandbox(policy=_unforked()) as engine:
        assert serves(engine)
        yield engine


def test_a_call_gets_the_vacant_child_and_another_follows(engine: Sandbox) -> None:
    first = _vacant()
    with under_way(engine, A_WHILE) as call:
        assert len(first.children()) == 1
        second = _vacant()
        assert not set(_namespaces(first)) & set(_namespaces(second))
        assert call.result(PATIENCE_S).value == "done"
    assert wait_until(lambda: not first.is_running())
    assert second.is_running()


def test_a_vacant_child_is_walled_and_reported_like_any_other() -> None:
    with Sandbox(policy=_unforked()) as engine:
        without, _, within = [
            engine.run("def tool(): print(1); return 2"),
            _vacant(),
            engine.run("def tool(): return 2"),
        ]
    assert within.receipt == without.receipt
    assert (within.value, within.timing.ahead) == (2, False)
    assert 0 < (within.usage.cpu_s or 0) < 1


def test_a_dead_vacant_child_is_replaced_until_several_have_died(engine: Sandbox) -> None:
    first = _vacant()
    first.kill()
    assert _vacant() != first
    assert serves(engine)
    lose_vacant_children()
    assert serves(engine)
    assert not vacant()


def test_it_does_not_outlive_its_box() -> None:
    with Sandbox(policy=_unforked()) as engine:
        assert serves(engine)
        last = _vacant()
    assert wait_until(lambda: not last.is_running())


def _unforked() -> Policy:
    policy = load("default")
    return policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})


def _vacant() -> psutil.Process:
    assert wait_until(lambda: bool(vacant()))
    (found,) = vacant()
    return found


def _namespaces(process: psutil.Process) -> list[str]:
    return [os.readlink(f"/proc/{process.pid}/ns/{kind}") for kind in OF_ITS_OWN]
