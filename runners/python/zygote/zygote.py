"""The zygote: a warm interpreter that forks one walled child per call and carries bytes for it.

One thread, one loop, and no foreign code ever (see environment.py). For every call there is a *guard* (see guard.py),
the first process of the call's own namespaces, and below it the process that runs the tool. Six pipes belong to a call
(see child.py); the zygote moves their bytes to and from the channel and looks into none but the guard's. So a call can
speak for itself only.

Children are forked ahead while there is nothing else to do: already walled, their pages touched by a dry run, each used
for one call and then gone (see forking.py; how it goes is told in children.py). Where the engine can hand descriptors
over, these have a *line* to it that does not lead through here (see zygote/direct_pipes.py).

The engine limits how much of a call's output may be under way (`grant`, output_relay.py): a fast tool waits for a
slow reader and nothing grows. Writing to the channel blocks: the engine always reads.
"""

from __future__ import annotations

import errno
import os
import time

from box import isolation, pipes, records, verification, wipe_on_fork
from box.watch import Watch, completed
from call import guard
from kernel.signals import listen, signal
from zygote import environment
from zygote.children import Brood
from zygote.direct_pipes import FAR_ENDS, Line, Lines
from zygote.forking import Nursery
from zygote.output_relay import Relay
from zygote.poll_loop import Loop
from zygote.prefork import QUIET_S
from zygote.preloading import rehearse
from zygote.queued_call import Waiting
from zygote.reports import Report
from zygote.requests import Hearing
from zygote.send_buffer import Outlet
from zygote.shared_state import Shared
from zygote.slots import Slots
from zygote.template_children import Births

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from box.channel import Channel
    from zygote.child import Child
    from zygote.template_control import TemplateControl

_READ_SIZE = 1 << 12
_YOUNG_CALL_S = 0.003
_ORDER_LOOK_S = 0.05
_CANNOT_FORK = 71


class Zygote:
    """The loop's own state. Children are either spare, or run a call, or are left to the brood to die."""

    def __init__(self, channel: Channel, plan: dict[str, Any], template: TemplateControl | None = None) -> None:
        self._channel = channel
        self._plan = plan
        plan["call"]["around"] = verification.namespaces()
        plan["call"].setdefault("held", verification.data_bytes())
        self._outlet = Outlet(channel)
        self._report = Report(self._outlet)
        self._loop = Loop()
        self._relay = Relay(self._loop, self._outlet, on_early_word=self._discard_spare)
        self._slots = Slots(are_needed=plan["slots"])
        self._lines = Lines(are_used=plan.get("lines", False))
        self._watch = Watch(plan["call"]["watch"])
        self._calls: dict[int, Child] = {}
        self._queue: dict[int, Waiting] = {}
        self._brood = Brood(self._loop, self._slots, plan["call"])
        self._nursery = Nursery(
            plan, loop=self._loop, brood=self._brood, slots=self._slots, lines=self._lines, hear=self._hear_guard
        )
        self._spares = self._nursery.spares
        self._shared = Shared(plan)
        self._births = None
        if template:
            self._births = Births(template, nursery=self._nursery, brood=self._brood, loop=self._loop)
            self._births.attend(
                on_born=self._serve_queue,
                on_unwanted=self._discard,
                on_dead=self._let_die_unused,
                on_lost=self._lose_template,
            )
        self._rehearsal = rehearse(plan["call"])
        self._has_rehearsed = False
        takers = {
            "call": self._take_call,
            "grant": self._take_pace,
            "hold": self._take_pace,
            "lines": self._take_lines,
            "kill": self._take_kill,
            "preload": self._take_preload,
            "compile": lambda said: self._shared.compile(said["source"], said["filename"], self._births),
            "slots": self._take_slots,
            "release": self._take_release,
        }
        self._hearing = Hearing(channel, takers, on_request=self._take_request, on_hangup=self._leave)

    def run(self) -> NoReturn:
        """Serve until the channel closes."""
        wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        listen(wake_write)
        if not guard.is_first(self._plan["call"]):
            isolation.adopt_orphans()
        self._loop.on_readable(wake, self._wake_up, wake)
        self._loop.on_readable(self._channel.fileno(), self._hearing.hear)
        if self._channel.lifeline is not None:
            self._loop.on_readable(self._channel.lifeline, self._leave)
        while True:
            is_idle = not self._loop.turn(self._patience())
            if is_idle or self._outlet.is_urgent:
                self._flush()
            if is_idle:
                self._use_idle_time()
            for child, limit in self._watch.over(self._calls.values(), now=time.monotonic()) if self._calls else ():
                self._brood.kill(child, limit)
            if self._births:
                self._births.check_time()

    # Waiting, and what to do with the time

    def _patience(self) -> float | None:
        if self._outlet.holds:
            return _YOUNG_CALL_S
        if self._has_something_to_make or not self._has_rehearsed:
            return _YOUNG_CALL_S if self._calls else 0
        if self._births and self._births.is_busy:
            return _ORDER_LOOK_S
        if self._calls and self._watch.is_on:
            return self._watch.interval
        return QUIET_S if self._spares.may_become_fewer else None

    def _use_idle_time(self) -> None:
        if not self._has_rehearsed:
            self._has_rehearsed = next(self._rehearsal, True)
        elif self._has_something_to_make:
            in_vain = self._nursery.make()
            if in_vain is not None:
                self._report.gone(in_vain.id, records.end_without_record(None))
        else:
            for child in self._spares.unwanted():
                self._discard(child)

    @property
    def _has_something_to_make(self) -> bool:
        """Whether a child is to be had ahead; what there is room for, calls that wait come first to."""
        return self._nursery.has_something_to_make and not self._queue

    # What the engine says

    def _take_call(self, said: dict[str, Any]) -> None:
        if said.get("line") is not None:
            self._take_call_on_line(said)
            return
        if self._plan.get("single_use") and self._lines.are_used:
            self._discard_newest()  # it would count against the only call
        child = self._births.take() if self._births else self._next_child()
        if child is not None:
            self._assign(child, said)
            return
        self._queue[said["id"]] = Waiting(said)
        if self._births:
            self._births.note_missing()
            self._bear_for_queue()
        else:
            self._discard_newest()  # what is not ready must not keep the slot that is waited for

    def _take_call_on_line(self, said: dict[str, Any]) -> None:
        """The engine has sent it to the child already. One that ended before we heard of its call has been reported."""
        child = self._lines.take_off(said["line"])
        if child is None:
            self._spares.forgive()
            return
        self._spares.release(child)
        child.call = said["id"]
        child.cpu = said["limits"].get("cpu_s")
        self._calls[said["id"]] = child
        self._relay.grant_files(child, said["credit"])
        if child.end is not None:
            self._end(child, child.end)
            self._serve_queue()

    def _take_request(self, id: int, data: memoryview) -> None:
        if id in self._calls:
            self._flush()  # a call of which the engine does not hear that it started is one that it makes again
            self._calls[id].push(data)
        elif id in self._queue:
            self._queue[id].requests.append(wipe_on_fork.keep(data))

    def _take_pace(self, said: dict[str, Any]) -> None:
        if said["id"] in self._calls:
            self._relay.pace(self._calls[said["id"]], said)

    def _take_kill(self, said: dict[str, Any]) -> None:
        id = said["id"]
        if id in self._calls:
            self._brood.kill(self._calls[id], "engine", wants_files=said.get("files", False))
        elif self._queue.pop(id, None):
            self._report.ended(id, records.end_without_record(None), killed_by="engine")

    def _take_preload(self, said: dict[str, Any]) -> None:
        if self._shared.preload(said["modules"], self._births):
            for child in self._spares.give_up():
                self._discard(child)

    def _take_slots(self, said: dict[str, Any]) -> None:
        counts = [count for _, count in said["slots"]]
        for (slot, count), doors in zip(said["slots"], self._hearing.take_descriptors(counts)):
            if len(doors) == count:
                self._slots.add(slot, doors)
        if self._slots.are_none:
            self._give_up(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        self._serve_queue()

    def _take_lines(self, said: dict[str, Any]) -> None:
        for line, ends in zip(said["lines"], self._hearing.take_descriptors([FAR_ENDS] * len(said["lines"]))):
            if ends:
                self._lines.add(Line(line, ends))

    def _take_release(self, said: dict[str, Any]) -> None:
        self._slots.release(said["slot"], retire=said["retire"])
        self._serve_queue()

    # From a call to its child

    def _next_child(self) -> Child | None:
        """None while there is none to be had: what has run out, the end of another child may give back, or slots that
        nobody is in."""
        while True:
            try:
                return self._nursery.next_child()
            except OSError as error:
                if error.errno in isolation.SHORTAGES_OF_DESCRIPTORS and self._slots.give_up_some():
                    continue
                if error.errno in isolation.SHORTAGES and not self._brood.is_empty:
                    self._discard_newest()
                    return None
                self._give_up(error)

    def _give_up(self, error: OSError) -> NoReturn:
        """No call can be made here any more."""
        self._outlet.say(isolation.fault(self._plan["call"]["namespaces"], error))
        self._flush()
        os._exit(_CANNOT_FORK)

    def _serve_queue(self) -> None:
        while self._queue and (self._births or self._spares or self._slots.has_room):
            child = self._births.take() if self._births else self._next_child()
            if child is None:
                self._bear_for_queue()
                return
            id = next(iter(self._queue))
            waiting = self._queue.pop(id)
            self._assign(child, waiting.said)
            for data in waiting.requests:
                self._take_request(id, data)

    def _bear_for_queue(self) -> None:
        """Have the template fork a process for each call that waits, as far as there are slots and descriptors."""
        try:
            if self._births and not self._births.bear(len(self._queue)):
                self._discard_newest()  # what waits for a call must not keep what a call waits for
        except OSError as error:
            self._give_up(error)

    def _lose_template(self, reason: str) -> None:
        """From now on calls import for themselves; `reason` is what packages did, if they did anything."""
        self._births = None
        environment.give_up_template(self._plan)
        self._shared.note_held(None)
        self._report.unfit(reason)
        self._serve_queue()

    def _assign(self, child: Child, said: dict[str, Any]) -> None:
        child.call = said["id"]
        child.credit = said["credit"]
        child.cpu = said["limits"].get("cpu_s")
        self._calls[said["id"]] = child
        child.put(pipes.assignment(said["limits"]))
        self._report.started(child)
        self._relay.attend(child)
        self._relay.grant_files(child, said["credit"])

    # What a guard says

    def _hear_guard(self, child: Child) -> None:
        """The guard's records: the walls it measured, what it took so far, how the tool ended; then its silence."""
        heard, is_silent = child.hear()
        for record in heard:
            if child.walls is None and child.is_templated:
                if not (self._births and self._births.note_walls(child, record)):
                    return
            elif child.walls is None:
                child.walls = record
                self._report.walls(child)
            elif child.spent is None:
                child.spent, said = records.read_spent(record)
                verification.remember(self._plan["call"], said, child.walls)
                self._take_note_of(child)
            else:
                self._end(child, record)
                self._serve_queue()
                return
        if is_silent:
            self._end(child, None)
            self._serve_queue()

    def _take_note_of(self, child: Child) -> None:
        """It has got as far as it does without a call."""
        if child.line is None:
            self._relay.attend(child)
            return
        child.is_ready = True
        self._report.ready(child)

    def _end(self, child: Child, record: bytes | None) -> None:
        """Everything of the call is dead: pass on what its pipes still hold, then say how it ended. Where it was called
        on its line and left files, word of the call is on its way, and they wait for that."""
        if child.call is None and record and self._relay.has_files(child):
            child.end = record
            self._loop.forget(child.status)
            return
        if child.call is None:
            self._spares.lose(child)
            if self._births:
                self._births.forget(child)
        if child.call is None and not child.is_ready:
            self._let_die_unused(child)
            return
        if child.call is not None:
            self._relay.empty(child, child.call)
            del self._calls[child.call]
        self._slots.hold(child.slot)
        fields = records.read_end(record) if record else records.end_without_record(self._brood.wait(child))
        fields = completed(fields, child.seen)
        if child.call is None:
            self._send_gone(child, fields)
        else:
            self._report.call_ended(child, fields)
        self._brood.let_die(child)

    # The ends of children

    def _discard(self, child: Child) -> None:
        """A spare that is not wanted any more; one that the engine may be calling just now is for it to dismiss."""
        if child.is_ready:
            self._report.surplus(child, wanted=self._spares.wanted)
            return
        if self._births:
            self._births.forget(child)
        self._brood.kill(child, None)
        self._let_die_unused(child)

    def _discard_newest(self) -> None:
        for spare in self._spares.newest():
            self._discard(spare)

    def _discard_spare(self, child: Child) -> None:
        """It speaks before it has a call: nothing of ours does that."""
        self._spares.lose(child)
        self._discard(child)

    def _let_die_unused(self, child: Child) -> None:
        self._send_gone(child, records.end_without_record(None))
        self._brood.let_die(child)

    def _wake_up(self, wake: int) -> None:
        """A child has ended, or we are told to."""
        if signal.SIGTERM in os.read(wake, _READ_SIZE):
            self._leave()
        self._brood.reap()
        if self._births:
            self._births.check_rest()
        self._serve_queue()

    def _leave(self) -> NoReturn:
        """Nobody listens any more."""
        self._brood.end_all()
        os._exit(0)

    # What is said to the engine

    def _send_gone(self, child: Child, fields: dict[str, Any]) -> None:
        """Once, of a child on a line; the engine may have called it, and we not have heard of that."""
        if child.line is not None and self._lines.take_off(child.line):
            self._report.gone(child.line, fields)

    def _flush(self) -> None:
        try:
            self._outlet.flush()
        except OSError:
            self._leave()
