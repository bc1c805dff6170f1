"""The zygote: a warm interpreter that forks one isolated child per call and carries bytes for it.

The zygote has one thread and one poll loop, and never runs foreign code (see zygote/environment.py). Every call has a
*guard* (see call/guard.py), the first process of the call's own namespaces, and below it the process that runs the
tool. Six pipes belong to a call (see box/pipes.py). The zygote moves their bytes to and from the channel and interprets
none but the guard's. So a call can speak for itself only.

Children are forked ahead while there is nothing else to do: already isolated, their pages touched by a dry run, each
used for one call (see zygote/prefork.py and zygote/child_pool.py). Where the engine can hand descriptors over, these
children have direct pipes to the engine that do not lead through here.

The engine limits how much of a call's output may be under way (`grant`, zygote/output_relay.py): a fast tool waits for
a slow reader, and nothing grows. Writing to the channel blocks: the engine always reads.
"""

from __future__ import annotations

import errno
import os
import time

from box import isolation, pipes, verification
from box.processes import LimitWatch, complete_usage
from call import guard
from kernel.signals import listen, signal
from zygote import environment
from zygote.child_pool import PIPES_OF_A_SET, ChildPool, DirectPipes
from zygote.engine_link import EngineLink, copy_to_wiped
from zygote.output_relay import OutputRelay
from zygote.poll_loop import PollLoop
from zygote.prefork import QUIET_S
from zygote.template_children import TemplateChildren

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from box.channel import Channel
    from zygote.child import Child
    from zygote.template_control import TemplateControl

_READ_SIZE = 1 << 12
_YOUNG_CALL_S = 0.003
"""Most calls are shorter: work that can wait would only take a processor from them."""
_ORDER_LOOK_S = 0.05
_CANNOT_FORK = 71


class QueuedCall:
    """A call without a child: the engine's message, and as much of the request as has come."""

    __slots__ = ("requests", "said")

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        self.requests: list[memoryview] = []


class Zygote:
    """The zygote's state. A child is idle, or runs a call, or is dying in the pool."""

    def __init__(self, channel: Channel, plan: dict[str, Any], template: TemplateControl | None = None) -> None:
        self._channel = channel
        self._plan = plan
        plan["call"]["around"] = verification.namespaces()
        plan["call"].setdefault("held", verification.data_bytes())
        self._loop = PollLoop()
        self._link = EngineLink(channel)
        self._pool = ChildPool(plan, loop=self._loop, link=self._link, on_record=self._hear_guard)
        self._relay = OutputRelay(self._loop, self._link, on_early_output=self._pool.discard_lost)
        self._watch = LimitWatch(plan["call"]["watch"])
        self._calls: dict[int, Child] = {}
        self._queue: dict[int, QueuedCall] = {}
        self._template: TemplateChildren | None = None
        if template:
            self._template = TemplateChildren(template, pool=self._pool, loop=self._loop)
            self._template.attend(on_born=self._serve_queue, on_lost=self._lose_template)
        self._rehearsal = environment.rehearse(plan["call"])
        self._has_rehearsed = False
        handlers = {
            "call": self._take_call,
            "grant": self._take_pace,
            "hold": self._take_pace,
            "lines": self._take_direct_pipes,
            "kill": self._take_kill,
            "preload": self._take_preload,
            "compile": lambda said: environment.compile_ahead(plan, said, self._template),
            "slots": self._take_slots,
            "release": self._take_release,
        }
        self._link.listen(handlers, on_request=self._take_request, on_hangup=self._leave)

    def run(self) -> NoReturn:
        """Serve until the channel closes."""
        wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        listen(wake_write)
        if not guard.is_first(self._plan["call"]):
            isolation.adopt_orphans()
        self._loop.on_readable(wake, self._wake_up, wake)
        self._loop.on_readable(self._channel.fileno(), self._link.receive)
        if self._channel.lifeline is not None:
            self._loop.on_readable(self._channel.lifeline, self._leave)
        while True:
            is_idle = not self._loop.turn(self._patience())
            if is_idle or self._link.is_urgent:
                self._flush()
            if is_idle:
                self._use_idle_time()
            for child, limit in self._watch.over(self._calls.values(), now=time.monotonic()) if self._calls else ():
                self._pool.kill(child, limit)
            if self._template:
                self._template.check_time()

    # Idle time

    def _patience(self) -> float | None:
        if self._link.has_unsent:
            return _YOUNG_CALL_S
        if self._needs_child or not self._has_rehearsed:
            return _YOUNG_CALL_S if self._calls else 0
        if self._template and self._template.is_busy:
            return _ORDER_LOOK_S
        if self._calls and self._watch.is_on:
            return self._watch.interval
        return QUIET_S if self._pool.idle.may_shrink else None

    def _use_idle_time(self) -> None:
        if not self._has_rehearsed:
            self._has_rehearsed = next(self._rehearsal, True)
        elif self._needs_child:
            self._pool.fork_idle()
        else:
            for child in self._pool.idle.take_unwanted():
                self._pool.discard(child)

    @property
    def _needs_child(self) -> bool:
        """Whether to fork an idle child; calls that wait come first."""
        return self._pool.needs_child and not self._queue

    # Messages of the engine

    def _take_call(self, said: dict[str, Any]) -> None:
        if said.get("line") is not None:
            self._take_direct_call(said)
            return
        if self._plan.get("single_use") and self._pool.uses_direct_pipes:
            self._pool.discard_newest()  # the idle child would count against the only call
        child = self._template.take() if self._template else self._next_child()
        if child is not None:
            self._assign(child, said)
            return
        self._queue[said["id"]] = QueuedCall(said)
        if self._template:
            self._template.note_missing()
            self._order_for_queue()
        else:
            self._pool.discard_newest()  # a child that is not ready must not keep the slot that the call needs

    def _take_direct_call(self, said: dict[str, Any]) -> None:
        """The child has the call already; the end of one that ended before this message was reported then."""
        child = self._pool.take_uncalled(said["line"])
        if child is None:
            self._pool.idle.forgive()
            return
        self._pool.idle.release(child)
        child.call = said["id"]
        child.cpu = said["limits"].get("cpu_s")
        self._calls[said["id"]] = child
        self._relay.grant_files(child, said["credit"])
        if child.end is not None:
            self._end(child, child.end)
            self._serve_queue()

    def _take_request(self, id: int, data: memoryview) -> None:
        if id in self._calls:
            self._flush()  # the engine repeats a call of which it did not hear that it started
            self._calls[id].push(data)
        elif id in self._queue:
            self._queue[id].requests.append(copy_to_wiped(data))

    def _take_pace(self, said: dict[str, Any]) -> None:
        if said["id"] in self._calls:
            self._relay.pace(self._calls[said["id"]], said)

    def _take_kill(self, said: dict[str, Any]) -> None:
        id = said["id"]
        if id in self._calls:
            self._pool.kill(self._calls[id], "engine", wants_files=said.get("files", False))
        elif self._queue.pop(id, None):
            self._link.report_end(id, pipes.end_without_record(None), killed_by="engine")

    def _take_preload(self, said: dict[str, Any]) -> None:
        if environment.preload_more(self._plan, said["modules"], self._template):
            for child in self._pool.idle.take_all():
                self._pool.discard(child)

    def _take_slots(self, said: dict[str, Any]) -> None:
        counts = [count for _, count in said["slots"]]
        for (slot, count), doors in zip(said["slots"], self._link.take_descriptors(counts)):
            if len(doors) == count:
                self._pool.slots.add(slot, doors)
        if self._pool.slots.is_unusable:
            self._give_up(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        self._serve_queue()

    def _take_direct_pipes(self, said: dict[str, Any]) -> None:
        for line, ends in zip(said["lines"], self._link.take_descriptors([PIPES_OF_A_SET] * len(said["lines"]))):
            if ends:
                self._pool.add_direct_pipes(DirectPipes(line, ends))

    def _take_release(self, said: dict[str, Any]) -> None:
        self._pool.slots.release(said["slot"], retire=said["retire"])
        self._serve_queue()

    # From a call to its child

    def _next_child(self) -> Child | None:
        """Return a child for a call, or None while no child is possible.

        Closing the doors of unused slots, or the end of another child, may give back what has run out.
        """
        while True:
            try:
                return self._pool.next_child()
            except OSError as error:
                if error.errno in isolation.SHORTAGES_OF_DESCRIPTORS and self._pool.slots.give_up_some():
                    continue
                if error.errno in isolation.SHORTAGES and not self._pool.is_empty:
                    self._pool.discard_newest()
                    return None
                self._give_up(error)

    def _give_up(self, error: OSError) -> NoReturn:
        """Report the fault and end: no call is possible here any more."""
        self._link.say_frame(isolation.fault(self._plan["call"]["namespaces"], error))
        self._flush()
        os._exit(_CANNOT_FORK)

    def _serve_queue(self) -> None:
        while self._queue and (self._template or self._pool.idle or self._pool.slots.has_room):
            child = self._template.take() if self._template else self._next_child()
            if child is None:
                self._order_for_queue()
                return
            id = next(iter(self._queue))
            queued = self._queue.pop(id)
            self._assign(child, queued.said)
            for data in queued.requests:
                self._take_request(id, data)

    def _order_for_queue(self) -> None:
        """Order a process of the template for each queued call, as far as there are slots and descriptors."""
        try:
            if self._template and not self._template.order_processes(len(self._queue)):
                self._pool.discard_newest()  # an idle child must not keep what a queued call needs
        except OSError as error:
            self._give_up(error)

    def _lose_template(self, reason: str) -> None:
        """Have calls import for themselves from now on; `reason` says what the packages did, if they did anything."""
        self._template = None
        environment.give_up_template(self._plan)
        environment.note_held(self._plan, None)
        self._link.report_unfit(reason)
        self._serve_queue()

    def _assign(self, child: Child, said: dict[str, Any]) -> None:
        child.call = said["id"]
        child.credit = said["credit"]
        child.cpu = said["limits"].get("cpu_s")
        self._calls[said["id"]] = child
        child.put(pipes.pack_json(said["limits"]))
        self._link.report_started(child)
        self._relay.attend(child)
        self._relay.grant_files(child, said["credit"])

    # Records of a guard

    def _hear_guard(self, child: Child) -> None:
        """Take a guard's records: the measured isolation, the usage so far, the end of the tool; then its silence."""
        records, is_silent = child.read_records()
        for record in records:
            if child.isolation is None and child.is_templated:
                if not (self._template and self._template.note_isolation(child, record)):
                    return
            elif child.isolation is None:
                child.isolation = record
                self._link.report_isolation(child)
            elif child.spent is None:
                child.spent, said = pipes.read_spent(record)
                verification.remember(self._plan["call"], said, child.isolation)
                self._note_ready(child)
            else:
                self._end(child, record)
                self._serve_queue()
                return
        if is_silent:
            self._end(child, None)
            self._serve_queue()

    def _note_ready(self, child: Child) -> None:
        """The child has done all that it can do without a call."""
        if child.line is None:
            self._relay.attend(child)
            return
        child.is_ready = True
        self._link.report_ready(child)

    def _end(self, child: Child, record: bytes | None) -> None:
        """Pass on what the pipes of a dead call still hold, then report its end.

        Where a call on direct pipes left files, the engine's message about the call is on its way, and the files wait
        for that.
        """
        if child.call is None and record and self._relay.has_files(child):
            child.end = record
            self._loop.forget(child.status)
            return
        if child.call is None:
            self._pool.idle.lose(child)
            if self._template:
                self._template.forget(child)
        if child.call is None and not child.is_ready:
            self._pool.release_unused(child)
            return
        if child.call is not None:
            self._relay.empty(child, child.call)
            del self._calls[child.call]
        self._pool.slots.hold(child.slot)
        fields = pipes.read_end(record) if record else pipes.end_without_record(self._pool.wait(child))
        fields = complete_usage(fields, child.seen)
        if child.call is None:
            self._pool.report_gone(child, fields)
        else:
            seen = child.seen.get(child.killed_by or "")
            self._link.report_end(child.call, fields, killed_by=child.killed_by, seen=seen)
        self._pool.release(child)

    # Signals and the end

    def _wake_up(self, wake: int) -> None:
        """A child has ended, or the zygote has to."""
        if signal.SIGTERM in os.read(wake, _READ_SIZE):
            self._leave()
        self._pool.reap()
        if self._template:
            self._template.check_rest()
        self._serve_queue()

    def _leave(self) -> NoReturn:
        """End: the engine is gone."""
        self._pool.end_all()
        os._exit(0)

    def _flush(self) -> None:
        try:
            self._link.flush()
        except OSError:
            self._leave()
