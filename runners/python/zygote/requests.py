"""What the engine says to the zygote: bytes from the channel, as messages, requests and descriptors."""

from __future__ import annotations

from box import channel as channels
from box import frames, wipe_on_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    from box.channel import Channel


class Hearing:
    """Reads one channel. `takers` get messages by their type, `on_request` parts of a call's request."""

    def __init__(
        self,
        channel: Channel,
        takers: Mapping[str, Callable[[dict[str, Any]], None]],
        *,
        on_request: Callable[[int, memoryview], None],
        on_hangup: Callable[[], NoReturn],
    ) -> None:
        self._channel = channel
        self._takers = takers
        self._on_request = on_request
        self._on_hangup = on_hangup
        self._reader = frames.Reader(wipe_on_fork.region(frames.BUFFER))
        self._handed = channels.Handed()

    def hear(self) -> None:
        """Take what is there."""
        try:
            count, descriptors = self._channel.receive(self._reader.room())
        except ConnectionResetError:  # the engine hung up before it had read everything
            self._on_hangup()
        if not count:
            self._on_hangup()
        self._handed.add(descriptors)
        for kind, content in self._reader.took(count):
            if kind == frames.CHUNK:
                self._on_request(content[0], content[2])
            else:
                self._takers[content["type"]](content)

    def take_descriptors(self, counts: Sequence[int]) -> list[list[int]]:
        """Return those that came with the message being taken, which brought so many of each."""
        return self._handed.take(counts)
