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


def _found(sandbox: Sandbox, head: str, tail: str) -> int:
    outcome = sandbox.run(SPY, {"head": head, "tail": tail})
    assert outcome.status == "ok", outcome.error
    assert isinstance(outcome.value, int)
    return outcome.value


@pytest.mark.slow
@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_of_an_earlier_call_is_in_the_memory_of_a_later_one(secret: str, sandbox: Sandbox) -> None:
    for _ in range(_CALLS):
        assert sandbox.run(VICTIM, {"argument": "abcd-argument-Kq7"}, env={"KEY": "environment-Kq7"}).status == "ok"
    head, tail = SECRETS[secret]
    for _ in range(_CALLS):
        itself = _found(sandbox, "never-", head)  # a search finds what it searches for: its own needle
        assert itself > 0
        assert _found(sandbox, head, tail) <= itself
