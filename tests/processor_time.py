"""Bounds of processor time that hold whatever machine the tests run on.

They were found on one whose Python does the work below in `_USUAL_S`. Where it takes longer, because processors are
slower or share what they are made of, a bound is wider by as much: it is about the code, not about the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_USUAL_S: Final = 0.008


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """See that what is done in the block takes this process no more of its processor's time."""
    before, begun = slowness(), time.process_time()
    yield
    used = time.process_time() - begun
    allowed = seconds * max(before, slowness())
    assert used <= allowed, f"it took {used:.4f} s of processor time; {allowed:.4f} s are allowed on this machine"


def slowness() -> float:
    """How many times as long something takes just now that Python always takes as long for; 1 at least."""
    begun, found = time.process_time(), dict[int, str]()
    for number in range(100_000):
        found[number & 255] = str(number)
    return max((time.process_time() - begun) / _USUAL_S, 1.0)
