"""The relay: the bytes of calls whose pipes end in the zygote, on their way to the engine.

It looks into none of them but the length of a reply. A call's output is paced by what the engine granted: past that its
pipes are left alone. Calls on a line of their own (see zygote/direct_pipes.py) never pass here.
"""

from __future__ import annotations

import select
import time

from box import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from zygote.child import Child
    from zygote.poll_loop import Loop
    from zygote.send_buffer import Outlet

_DRAIN_S = 0.1
_MOST_HELD = 1 << 20
"""What the pipe of a tool can hold, and is taken in any time: on a busy machine it may be long between two reads."""
_DRAIN_FILES_S = 10.0
"""Only a guard writes those, and it has ended: what is there is bounded."""


class Relay:
    """Carries; `on_early_word` is told of a child that speaks before it has a call."""

    def __init__(self, loop: Loop, outlet: Outlet, *, on_early_word: Callable[[Child], None]) -> None:
        self._loop = loop
        self._outlet = outlet
        self._on_early_word = on_early_word

    def attend(self, child: Child) -> None:
        """Wait for what it will say."""
        self._resume(child)
        self.hold(child, False)

    def hold(self, child: Child, is_held: bool) -> None:  # noqa: FBT001  (the state that it is to be in)
        """Leave what it gives and returns where it is, or go on; that is never before its walls and what it took to get
        there are known, which it told first, and which may be seen last among much that is ready at once."""
        if child.value is None:
            return
        if is_held:
            self._loop.forget(child.value)
        elif child.spent is not None and not self._loop.waits_for(child.value):
            self._carry(child, child.value, frames.VALUE)

    def pace(self, child: Child, said: dict[str, Any]) -> None:
        """What the engine says of how much it wants of a call."""
        if said["type"] == "hold":
            self.hold(child, said["on"])
        elif said.get("of") == "files":
            self.grant_files(child, said["bytes"])
        else:
            self.grant(child, said["bytes"])

    def grant(self, child: Child, size: int) -> None:
        """Let that much more of its output come."""
        was_paused = child.credit <= 0
        child.credit += size
        if was_paused and child.credit > 0:
            self._resume(child)

    def attend_files(self, child: Child) -> None:
        """Wait for what its guard will send of what the tool left; not before its call is known."""
        if child.files_credit > 0 and not self._loop.waits_for(child.files):
            self._carry(child, child.files, frames.FILES)

    def grant_files(self, child: Child, size: int) -> None:
        """Let that much more of it come."""
        child.files_credit += size
        self.attend_files(child)

    def has_files(self, child: Child) -> bool:
        """Whether some of it is there."""
        poll = select.poll()
        poll.register(child.files, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def empty(self, child: Child, call: int) -> None:
        """Pass on what the pipes of a call still hold; everything of it is dead."""
        self._drain(child.files, self._to(call, frames.FILES), most_s=_DRAIN_FILES_S)
        for descriptor, stream in child.outputs:
            self._drain(descriptor, self._to(call, stream))
        if child.value is not None:
            self._drain(child.value, lambda data: self._pass_reply_on(child, call, data))

    def _resume(self, child: Child) -> None:
        for descriptor, stream in child.outputs:
            if not self._loop.waits_for(descriptor):
                self._carry(child, descriptor, stream)

    def _carry(self, child: Child, descriptor: int, stream: int) -> None:
        self._loop.on_readable(descriptor, self._forward, child, descriptor, stream)

    def _forward(self, child: Child, descriptor: int, stream: int) -> None:
        data = self._outlet.read(descriptor)
        if data is None:
            return
        if not data:
            self._loop.forget(descriptor)
        elif child.call is None:
            self._on_early_word(child)
        elif stream == frames.FILES:
            self._pass_files_on(child, child.call, data)
        elif stream == frames.VALUE:
            self._pass_reply_on(child, child.call, data)
        else:
            self._pass_output_on(child, child.call, stream, data)

    def _pass_output_on(self, child: Child, call: int, stream: int, data: memoryview) -> None:
        self._outlet.carry(call, stream, data)
        child.credit -= len(data)
        if child.credit <= 0:
            for paused, _ in child.outputs:
                self._loop.forget(paused)

    def _pass_reply_on(self, child: Child, call: int, data: memoryview) -> None:
        """What was printed before the reply was whole goes first."""
        is_whole = child.completes_reply(data)
        self._outlet.carry(call, frames.VALUE, data)
        if is_whole:
            for descriptor, stream in child.outputs:
                self._drain(descriptor, self._to(call, stream))
            self._outlet.say(frames.message("returned", id=call, cpu_before=child.spent or 0.0))

    def _pass_files_on(self, child: Child, call: int, data: memoryview) -> None:
        self._outlet.carry(call, frames.FILES, data)
        child.files_credit -= len(data)
        if child.files_credit <= 0:
            self._loop.forget(child.files)

    def _to(self, call: int, stream: int) -> Callable[[memoryview], None]:
        return lambda data: self._outlet.carry(call, stream, data)

    def _drain(self, descriptor: int, carry: Callable[[memoryview], None], *, most_s: float = _DRAIN_S) -> None:
        """What a pipe holds; a process that goes on, or that escaped, could write for ever."""
        deadline, taken = time.monotonic() + most_s, 0
        data = self._outlet.read(descriptor)
        while data:
            carry(data)
            taken += len(data)
            is_enough = taken >= _MOST_HELD and time.monotonic() >= deadline
            data = None if is_enough else self._outlet.read(descriptor)
