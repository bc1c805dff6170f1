"""Signals by their numbers: what is behind the public module, which makes enumerations of them.

Those take longer to make than all else that stays outside of a box takes to load, and would be a fifth of its memory.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

signal: Any = sys.modules["_signal"]
HEARD = (signal.SIGCHLD, signal.SIGTERM)
"""Those that a zygote listens to."""


def listen(wake: int) -> None:
    """Have a byte written there for each of them."""
    for number in HEARD:
        signal.signal(number, _only_wake)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)


def stop_listening() -> None:
    """Here they do what they do in any process, not what they did in the one that this is a fork of."""
    signal.set_wakeup_fd(-1)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)


def _only_wake(*_: object) -> None:
    """A function that is there for good: to forget it takes a fork nothing."""
