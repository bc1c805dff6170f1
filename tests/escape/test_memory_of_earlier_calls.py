"""Attack: read, in the memory that a call's process was forked with, what went through the runner for earlier calls.

A call's process is a copy of the zygote. Whatever the zygote ever held (another call's arguments, environment, source,
output or value) is in that copy, freed or not, and /proc/self/mem reads all of it. A box serves all calls of a tenant,
so the reader may be another tool, of another author, that was never given the secret.
"""

from __future__ import annotations

from typing import Final

import pytest

from sandbox import Sandbox

VICTIM: Final = """
import os

def tool(argument: str) -> str:
    print("printed-" + argument[:4] + "-Kq7")
    return "returned-" + argument[:4] + "-Kq7"
"""
# The needles are put together at run time, so that the search does not find itself.
SPY: Final = """
def tool(head: str, tail: str) -> int:
    needle, found = (head + tail).encode(), 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            places, rights = line.split()[:2]
            start, end = (int(place, 16) for place in places.split("-"))
            if not rights.startswith("rw"):
                continue
            try:
                memory.seek(start)
                found += memory.read(end - start).count(needle)
            except OSError:
                continue
    return found
"""
SECRETS: Final = {
    "an argument": ("abcd-argu", "ment-Kq7"),
    "an environment variable": ("environ", "ment-Kq7"),
    "what it printed": ("printed-ab", "cd-Kq7"),
    "what it returned": ("returned-ab", "cd-Kq7"),
}
_CALLS: Final = 3


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_of_an_earlier_call_is_in_the_memory_of_a_later_one(secret: str, sandbox: Sandbox) -> None:
    for _ in range(_CALLS):
        assert sandbox.run(VICTIM, {"argument": "abcd-argument-Kq7"}, env={"KEY": "environment-Kq7"}).status == "ok"
    head, tail = SECRETS[secret]
    for _ in range(_CALLS):
        outcome = sandbox.run(SPY, {"head": head, "tail": tail})
        assert outcome.status == "ok", outcome.error
        assert outcome.value == 0, f"{secret} of an earlier call was found {outcome.value} times"


LOOK_BACK: Final = """
import gc, sys

def tool() -> list[str]:
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(type(frame.f_locals.get("self")).__name__)
        frame = frame.f_back
    return found + [type(each).__name__ for each in gc.get_objects()]
"""


@pytest.mark.parametrize("kind", ["Zygote", "Child", "Reader"])
def test_the_runners_own_objects_are_out_of_a_tools_reach(kind: str, sandbox: Sandbox) -> None:
    """They hold requests that are still on their way to neighbours."""
    outcome = sandbox.run(LOOK_BACK)
    assert outcome.status == "ok", outcome.error
    assert isinstance(outcome.value, list)
    assert kind not in outcome.value
