"""Bounds of processor time that hold on every machine.

The bounds come from a machine whose Python does the work below in `_USUAL_S`. Where that work takes longer, because
processors are slower or shared, a bound is wider by the same factor: a bound is about the code, not about the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_USUAL_S: Final = 0.008


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that the block takes this process at most so much processor time, scaled to this machine."""
    before, begun = slowness(), time.process_time()
    yield
    used = time.process_time() - begun
    allowed = seconds * max(before, slowness())
    assert used <= allowed, f"it took {used:.4f} s of processor time; {allowed:.4f} s are allowed on this machine"


def slowness() -> float:
    """Return how many times longer a fixed piece of Python work takes now than usual; at least 1."""
    begun, found = time.process_time(), dict[int, str]()
    for number in range(100_000):
        found[number & 255] = str(number)
    return max((time.process_time() - begun) / _USUAL_S, 1.0)
