"""The relay: carries the bytes of calls whose pipes end in the zygote to the engine.

The relay interprets nothing but the length of a reply. The engine paces the output of a call by what it grants: past
that amount the relay leaves the call's pipes alone. Calls on direct pipes (see zygote/child_pool.py) never pass here.
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
    from zygote.engine_link import EngineLink
    from zygote.poll_loop import PollLoop

_DRAIN_S = 0.1
_MAX_PIPE_BYTES = 1 << 20
"""The capacity of a tool's pipe, which is read to its end in any case: a busy machine may pause long between reads."""
_DRAIN_FILES_S = 10.0
"""Only a guard writes files, and it has ended: the amount is bounded."""


class OutputRelay:
    """Carries output; `on_early_output` is called with a child that speaks before it has a call."""

    def __init__(self, loop: PollLoop, link: EngineLink, *, on_early_output: Callable[[Child], None]) -> None:
        self._loop = loop
        self._link = link
        self._on_early_output = on_early_output

    def attend(self, child: Child) -> None:
        """Carry what a child writes, from now on."""
        self._resume(child)
        self._hold(child, is_held=False)

    def pace(self, child: Child, said: dict[str, Any]) -> None:
        """Follow a message of the engine about the pace of a call."""
        if said["type"] == "hold":
            self._hold(child, is_held=said["on"])
        elif said.get("of") == "files":
            self.grant_files(child, said["bytes"])
        else:
            self._grant(child, said["bytes"])

    def grant_files(self, child: Child, size: int) -> None:
        """Carry that many more bytes of the files that the tool left."""
        child.files_credit += size
        if child.files_credit > 0 and not self._loop.waits_for(child.files):
            self._carry(child, child.files, frames.FILES)

    def has_files(self, child: Child) -> bool:
        """Whether the guard has sent something that was not read yet."""
        poll = select.poll()
        poll.register(child.files, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def empty(self, child: Child, call: int) -> None:
        """Carry what the pipes of a call still hold; all of its processes are dead."""
        self._drain(child.files, self._to(call, frames.FILES), within_s=_DRAIN_FILES_S)
        for descriptor, stream in child.outputs:
            self._drain(descriptor, self._to(call, stream))
        if child.value is not None:
            self._drain(child.value, lambda data: self._pass_reply_on(child, call, data))

    def _hold(self, child: Child, *, is_held: bool) -> None:
        """Stop or start carrying the reply of a child.

        The reply is never carried before the child's isolation and usage are known. The guard reports those first, but
        the poll may show them last among many descriptors that are ready at once.
        """
        if child.value is None:
            return
        if is_held:
            self._loop.forget(child.value)
        elif child.spent is not None and not self._loop.waits_for(child.value):
            self._carry(child, child.value, frames.VALUE)

    def _grant(self, child: Child, size: int) -> None:
        was_paused = child.credit <= 0
        child.credit += size
        if was_paused and child.credit > 0:
            self._resume(child)

    def _resume(self, child: Child) -> None:
        for descriptor, stream in child.outputs:
            if not self._loop.waits_for(descriptor):
                self._carry(child, descriptor, stream)

    def _carry(self, child: Child, descriptor: int, stream: int) -> None:
        self._loop.on_readable(descriptor, self._forward, child, descriptor, stream)

    def _forward(self, child: Child, descriptor: int, stream: int) -> None:
        data = self._link.read(descriptor)
        if data is None:
            return
        if not data:
            self._loop.forget(descriptor)
        elif child.call is None:
            self._on_early_output(child)
        elif stream == frames.FILES:
            self._pass_files_on(child, child.call, data)
        elif stream == frames.VALUE:
            self._pass_reply_on(child, child.call, data)
        else:
            self._pass_output_on(child, child.call, stream, data)

    def _pass_output_on(self, child: Child, call: int, stream: int, data: memoryview) -> None:
        self._link.carry(call, stream, data)
        child.credit -= len(data)
        if child.credit <= 0:
            for paused, _ in child.outputs:
                self._loop.forget(paused)

    def _pass_reply_on(self, child: Child, call: int, data: memoryview) -> None:
        """Carry the reply; output that was printed before the reply was whole goes before `returned`."""
        is_whole = child.completes_reply(data)
        self._link.carry(call, frames.VALUE, data)
        if is_whole:
            for descriptor, stream in child.outputs:
                self._drain(descriptor, self._to(call, stream))
            self._link.say("returned", id=call, cpu_before=child.spent or 0.0)

    def _pass_files_on(self, child: Child, call: int, data: memoryview) -> None:
        self._link.carry(call, frames.FILES, data)
        child.files_credit -= len(data)
        if child.files_credit <= 0:
            self._loop.forget(child.files)

    def _to(self, call: int, stream: int) -> Callable[[memoryview], None]:
        return lambda data: self._link.carry(call, stream, data)

    def _drain(self, descriptor: int, carry: Callable[[memoryview], None], *, within_s: float = _DRAIN_S) -> None:
        """Carry what a pipe holds; a process that goes on, or that escaped, could write without end."""
        deadline, taken = time.monotonic() + within_s, 0
        data = self._link.read(descriptor)
        while data:
            carry(data)
            taken += len(data)
            is_enough = taken >= _MAX_PIPE_BYTES and time.monotonic() >= deadline
            data = None if is_enough else self._link.read(descriptor)
