"""The poll loop: which descriptors the zygote waits for, and what it calls when one of them is ready."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class PollLoop:
    """Descriptors, each with one function to call when the descriptor can be read from."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}

    def on_readable(self, descriptor: int, handle: Callable[..., None], *arguments: Any) -> None:
        """Call `handle` whenever there is something to read, or the other end is closed."""
        self._handlers[descriptor] = (handle, arguments)
        self._poll.register(descriptor, select.POLLIN)

    def waits_for(self, descriptor: int) -> bool:
        """Whether the descriptor has a function to call."""
        return descriptor in self._handlers

    def forget(self, descriptor: int) -> None:
        """Stop waiting for a descriptor; required before the descriptor is closed."""
        if self._handlers.pop(descriptor, None):
            self._poll.unregister(descriptor)

    def turn(self, seconds: float | None) -> bool:
        """Wait for at most that long, or without limit for None; handle ready descriptors, and return if any were."""
        events = self._poll.poll(None if seconds is None else seconds * 1000)
        for descriptor, _ in events:
            # An earlier handler may have forgotten the descriptor; a new owner of the number only reads nothing.
            found = self._handlers.get(descriptor)
            if found:
                handle, arguments = found
                handle(*arguments)
        return bool(events)
