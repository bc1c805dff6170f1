"""The zygote: a warm interpreter that forks one walled child per call and carries bytes for it.

One thread, one epoll, no foreign code after the preloading. For every call there is a *guard* (see guard.py), the first
process of the call's own namespaces, and below it the process that runs the tool. Five pipes belong to a call: request,
stdout, stderr, value, status; the zygote moves their bytes to and from the channel and looks into none but the guard's
status. A call can therefore speak for itself only.

Children are forked ahead while there is nothing else to do: already walled, their pages touched by a dry run, each used
for one call and then gone. How many follows demand: one more whenever a call found none, one fewer after a quiet time,
never more than the engine allowed.

The engine limits how much of a call's output may be under way (`grant`): past that its pipes are left alone, so that a
fast tool waits for a slow reader and nothing grows. Writing to the channel blocks: the engine always reads.
"""

import collections
import gc
import os
import select
import signal
import struct
import sys
import time

import frames
import guard
from watch import Watch

_READ_SIZE = 1 << 16
_QUIET_S = 10.0
_YOUNG_CALL_S = 0.003
_DRAIN_S = 0.1
_RECORD = struct.Struct(">I")


class Child:
    """One forked child, from the fork to its last byte."""

    __slots__ = (
        "ahead",
        "call",
        "credit",
        "ended",
        "killed_by",
        "pid",
        "pipes",
        "requests",
        "slot",
        "started",
        "status",
        "walls",
    )

    def __init__(self, pid, slot, pipes, ahead):
        self.pid = pid
        self.slot = slot
        self.pipes = pipes
        self.ahead = ahead
        self.call = None
        self.credit = 0
        self.requests = collections.deque()
        self.status = bytearray()
        self.walls = None
        self.ended = None
        self.killed_by = None
        self.started = 0.0


class Zygote:
    """The loop. `channel` gives `receive() -> (bytes, descriptors)`, `send(bytes)` and `fileno()`."""

    def __init__(self, channel, plan):
        self._channel = channel
        self._plan = plan
        self._reader = frames.Reader()
        self._epoll = select.epoll()
        self._on_ready = {}
        self._calls = {}
        self._queue = collections.deque()
        self._spares = collections.deque()
        self._dying = {}
        self._slots = {}
        self._free = collections.deque()
        self._held = set()
        self._target = min(1, plan["ahead"])
        self._last_miss = time.monotonic()
        self._watch = Watch(plan["call"]["watch"])
        self._last_start = 0.0
        self._refused = 0

    def run(self):
        """Serve until the channel closes."""
        wake, wake_write = os.pipe()
        for end in (wake, wake_write):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._listen(wake, lambda: self._reap(wake))
        self._listen(self._channel.fileno(), self._hear)
        while True:
            events = self._epoll.poll(self._patience())
            for descriptor, _ in events:
                ready = self._on_ready.get(descriptor)
                if ready:
                    ready()
            if not events:
                self._use_idle_time()

    def _listen(self, descriptor, ready):
        self._on_ready[descriptor] = ready
        self._epoll.register(descriptor, select.EPOLLIN)

    def _forget(self, descriptor):
        if self._on_ready.pop(descriptor, None):
            self._epoll.unregister(descriptor)

    # Waiting, and what to do with the time

    def _patience(self):
        if self._wants_spare():
            return _YOUNG_CALL_S if self._calls else 0
        if self._calls and self._watch.is_on:
            return self._watch.interval
        return _QUIET_S if self._spares and self._target > 1 else -1

    def _wants_spare(self):
        return len(self._spares) < self._target and self._refused < 3 and self._has_slot()

    def _use_idle_time(self):
        now = time.monotonic()
        if self._wants_spare():
            self._spares.append(self._fork(ahead=True))
        elif self._target > 1 and now - self._last_miss > _QUIET_S:
            self._target -= 1
            self._last_miss = now
            while len(self._spares) > self._target:
                self._discard(self._spares.pop())
        for child in self._watch.over(self._calls.values(), now):
            self._kill(child, child.killed_by)

    # What the engine says

    def _hear(self):
        data, descriptors = self._channel.receive()
        if not data:
            os._exit(0)
        for kind, content in self._reader.feed(data):
            if kind == frames.CHUNK:
                self._take_request(*content)
            else:
                getattr(self, "_hear_" + content.pop("type"))(descriptors=descriptors, **content)

    def _hear_call(self, id, credit, limits, **_):
        child = self._next_child()
        if child is None:
            self._queue.append((id, credit, limits, collections.deque()))
            return
        self._assign(child, id, credit, limits)

    def _hear_grant(self, id, bytes, **_):
        child = self._calls.get(id)
        if child is None:
            return
        was_paused = child.credit <= 0
        child.credit += bytes
        if was_paused and child.credit > 0:
            self._resume(child)

    def _hear_kill(self, id, **_):
        child = self._calls.get(id)
        if child is not None:
            self._kill(child, "engine")
            return
        for waiting in self._queue:
            if waiting[0] == id:
                self._queue.remove(waiting)
                self._send_ended(id, None, None, killed_by="engine")
                return

    def _hear_preload(self, modules, **_):
        if preload(modules)[0]:
            while self._spares:
                self._discard(self._spares.popleft())

    def _hear_slots(self, slots, descriptors, **_):
        for slot, count in slots:
            self._slots[slot] = [descriptors.pop(0) for _ in range(count)]
            self._free.append(slot)
        self._serve_queue()

    def _hear_release(self, slot, retire, **_):
        self._held.discard(slot)
        if retire:
            for descriptor in self._slots.pop(slot, ()):
                os.close(descriptor)
        elif slot not in self._dying.values():
            self._free.append(slot)
            self._serve_queue()

    # Children

    def _has_slot(self):
        return bool(self._free) or not self._plan["slots"]

    def _next_child(self):
        if self._spares:
            return self._spares.popleft()
        self._last_miss = time.monotonic()
        self._target = min(self._target + 1, self._plan["ahead"])
        return self._fork(ahead=False) if self._has_slot() else None

    def _serve_queue(self):
        while self._queue and (self._spares or self._has_slot()):
            id, credit, limits, requests = self._queue.popleft()
            child = self._next_child()
            self._assign(child, id, credit, limits)
            for data in requests:
                self._take_request(id, frames.REQUEST, data)

    def _fork(self, ahead):
        slot = self._free.popleft() if self._plan["slots"] else None
        pairs = [os.pipe() for _ in range(5)]
        ours = (pairs[0][1], pairs[1][0], pairs[2][0], pairs[3][0], pairs[4][0])
        theirs = (pairs[0][0], pairs[1][1], pairs[2][1], pairs[3][1], pairs[4][1])
        try:
            pid = guard.fork(self._plan["call"], theirs, self._slots.get(slot, ()), ahead)
        except OSError as error:
            for end in ours + theirs:
                os.close(end)
            os.write(2, ("fork: %s\n" % error).encode())
            os._exit(71)
        for end in theirs:
            os.close(end)
        for end in ours:
            os.set_blocking(end, False)
        child = Child(pid, slot, ours, ahead)
        self._listen(ours[4], lambda: self._hear_guard(child))
        return child

    def _assign(self, child, id, credit, limits):
        child.call = id
        child.credit = credit
        child.started = time.monotonic()
        self._calls[id] = child
        head = guard.assignment(limits)
        child.requests.append(head)
        self._push_request(child)
        self._send(frames.message("started", id=id, slot=child.slot, ahead=child.ahead))
        if child.walls is not None:
            self._send(frames.chunk(id, frames.WALLS, child.walls))
        self._resume(child)
        self._listen(child.pipes[3], lambda: self._forward(child, 3, frames.VALUE))

    def _resume(self, child):
        for index, stream in ((1, frames.STDOUT), (2, frames.STDERR)):
            descriptor = child.pipes[index]
            if descriptor not in self._on_ready and child.ended is None:
                self._listen(descriptor, lambda i=index, s=stream: self._forward(child, i, s))

    def _take_request(self, id, _, data):
        child = self._calls.get(id)
        if child is not None:
            child.requests.append(data)
            self._push_request(child)
            return
        for waiting in self._queue:
            if waiting[0] == id:
                waiting[3].append(data)

    def _push_request(self, child):
        """Hand the request on as far as the pipe takes it; the rest goes when it is writable."""
        descriptor = child.pipes[0]
        while child.requests:
            data = child.requests[0]
            try:
                written = os.write(descriptor, data)
            except BlockingIOError:
                if descriptor not in self._on_ready:
                    self._on_ready[descriptor] = lambda: self._push_request(child)
                    self._epoll.register(descriptor, select.EPOLLOUT)
                return
            except BrokenPipeError:
                child.requests.clear()
                break
            if written == len(data):
                child.requests.popleft()
            else:
                child.requests[0] = data[written:]
        self._forget(descriptor)

    def _forward(self, child, index, stream):
        descriptor = child.pipes[index]
        try:
            data = os.read(descriptor, _READ_SIZE)
        except BlockingIOError:
            return
        if not data:
            self._forget(descriptor)
            return
        self._send(frames.chunk(child.call, stream, data))
        if stream != frames.VALUE:
            child.credit -= len(data)
            if child.credit <= 0:
                self._forget(child.pipes[1])
                self._forget(child.pipes[2])

    def _hear_guard(self, child):
        """The guard's two records: the walls it measured, and how the tool ended; then its silence."""
        try:
            data = os.read(child.pipes[4], _READ_SIZE)
        except BlockingIOError:
            return
        child.status += data
        while len(child.status) >= 4:
            (length,) = _RECORD.unpack_from(child.status)
            if len(child.status) < length + 4:
                break
            record = bytes(child.status[4 : length + 4])
            del child.status[: length + 4]
            if child.walls is None:
                child.walls = record
                if child.call is not None:
                    self._send(frames.chunk(child.call, frames.WALLS, record))
            else:
                self._finish(child, record)
                return
        if not data:
            self._finish(child, None)

    def _finish(self, child, record):
        """Everything of the call is dead: pass on what its pipes still hold, then say how it ended."""
        child.ended = True
        if child.call is None:
            self._spares.remove(child)
            self._refused += 1
            self._close(child)
            return
        for index, stream in ((1, frames.STDOUT), (2, frames.STDERR), (3, frames.VALUE)):
            self._forget(child.pipes[index])
            self._drain(child, child.pipes[index], stream)
        del self._calls[child.call]
        if child.slot is not None:
            self._held.add(child.slot)
        usage = os.wait4(child.pid, 0)[1:] if record is None else None
        if usage is None:
            self._dying[child.pid] = child.slot
        self._send_ended(child.call, record, usage, child.killed_by)
        self._close(child)

    def _drain(self, child, descriptor, stream):
        deadline = time.monotonic() + _DRAIN_S
        while True:
            try:
                data = os.read(descriptor, _READ_SIZE)
            except BlockingIOError:
                return
            if not data or time.monotonic() > deadline:
                return
            self._send(frames.chunk(child.call, stream, data))

    def _send_ended(self, id, record, usage, killed_by):
        fields = guard.read_end(record) if record else guard.end_without_record(usage)
        self._send(frames.message("ended", id=id, killed_by=killed_by, **fields))

    def _close(self, child):
        for descriptor in child.pipes:
            self._forget(descriptor)
            os.close(descriptor)

    def _kill(self, child, reason):
        if child.killed_by is None:
            child.killed_by = reason
        try:
            os.kill(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _discard(self, child):
        """A spare that is not wanted any more."""
        self._kill(child, None)
        self._dying[child.pid] = child.slot
        self._close(child)

    def _reap(self, wake):
        try:
            os.read(wake, 4096)
        except BlockingIOError:
            pass
        for pid in list(self._dying):
            if os.waitpid(pid, os.WNOHANG)[0]:
                slot = self._dying.pop(pid)
                if slot is not None and slot not in self._held and slot in self._slots:
                    self._free.append(slot)
        self._serve_queue()

    def _send(self, data):
        try:
            self._channel.send(data)
        except OSError:
            os._exit(0)


def preload(modules):
    """Import what calls will need, once for all of them; what fails is for the call to report. New ones, and failures."""
    new, failed = [], {}
    for name in modules:
        if name in sys.modules:
            continue
        try:
            __import__(name)
            new.append(name)
        except BaseException as error:
            failed[name] = "%s: %s" % (type(error).__name__, str(error)[:200])
    gc.collect()
    gc.freeze()
    return new, failed
