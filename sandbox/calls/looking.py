"""Looking for a reply: ask again and again for a moment, instead of waiting to be woken.

A processor that nobody needs is put to sleep, and comes back without its caches and predictions, more so where it is a
virtual one: that took 0.2 of the 1.1 ms of a call in a warm box. So for as long as a short call takes, the processor is
kept awake, and all others have their turn in between: other tasks of the loop, and other processes. Only for a child
that was there before, and a call that is its box's only one; where there is more to do, nothing falls asleep. Nor where
there is one processor only, which the call itself needs.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from typing import Final

from sandbox.wire.conversation import Conversation
from sandbox.wire.running_call import RunningCall

_LOOKING_S: Final = 0.0005


async def look_for_a_reply(conversation: Conversation, call: RunningCall) -> None:
    """Return once the call has told all, or when it is better waited for."""
    if call.line is None or conversation.running > 1 or _processors() < 2:
        return
    deadline = time.monotonic() + _LOOKING_S
    while not call.told.done() and time.monotonic() < deadline:
        os.sched_yield()
        await asyncio.sleep(0)


@cache
def _processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
