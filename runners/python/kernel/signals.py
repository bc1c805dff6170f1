"""Signals by their numbers, from the C module behind the public one.

The public module turns all numbers into enumerations, which take longer to make than the whole rest of a warden takes
to load, and a fifth of its memory.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

signal: Any = sys.modules["_signal"]
HEARD = (signal.SIGCHLD, signal.SIGTERM)
"""The signals that a zygote listens to."""


def listen(wake: int) -> None:
    """Have the interpreter write a byte to `wake` for each signal that is heard."""
    for number in HEARD:
        signal.signal(number, _only_wake)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)


def stop_listening() -> None:
    """Restore the default effects of signals in a fork of a process that listens."""
    signal.set_wakeup_fd(-1)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)


def _only_wake(*_: object) -> None:
    """Do nothing; a function of the module, because a closure would cost each fork its release."""
