"""The loop's table: which descriptors are waited for, and what is done when one of them is ready."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Loop:
    """Descriptors, each with the one thing to call when it can be read from."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._ready: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}

    def on_readable(self, descriptor: int, ready: Callable[..., None], *given: Any) -> None:
        """Call `ready` with what is given whenever there is something to read, or the other end is closed."""
        self._ready[descriptor] = (ready, given)
        self._poll.register(descriptor, select.POLLIN)

    def waits_for(self, descriptor: int) -> bool:
        """Whether anything is to be called for it."""
        return descriptor in self._ready

    def forget(self, descriptor: int) -> None:
        """Wait for it no longer; to be done before it is closed."""
        if self._ready.pop(descriptor, None):
            self._poll.unregister(descriptor)

    def turn(self, seconds: float | None) -> bool:
        """Wait at most that long, None for as long as it takes, and call what is ready; False when nothing was."""
        events = self._poll.poll(None if seconds is None else seconds * 1000)
        for descriptor, _ in events:
            # What was called before may have forgotten it, and a new owner of the number only reads nothing.
            found = self._ready.get(descriptor)
            if found:
                ready, given = found
                ready(*given)
        return bool(events)
