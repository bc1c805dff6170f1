"""A box of processes: the warden outside, the zygote and its calls inside, and the control groups around them.

A slot is a control group that holds one call at a time and measures it. A slot serves many calls, because creating a
group costs more than entering one. The slot reads counters that only grow before and after a call, and resets peaks. A
call that moves a peak that cannot be reset (the number of processes above a guard and its tool, any peak of version 2)
makes the slot unfit, and the box replaces it. The files of the counters are open from the moment a child enters the
slot until its call is over; an idle slot has no open files.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from sandbox.backends.base import Box
from sandbox.backends.cgroups import Counters
from sandbox.backends.channel import SocketChannel
from sandbox.backends.pipes import ChildPipes, open_child_pipes
from sandbox.backends.subprocess.groups import GUARD_PROCESSES, Group
from sandbox.egress.traffic import CallTraffic
from sandbox.policy import Limits
from sandbox.protocols import Reading, Receiver

if TYPE_CHECKING:
    from sandbox.egress.listener_handoff import ListenerHandoff

FIRST_SLOT: Final = "0"
"""The group of the slot for a box's first call; the next slots get the following numbers."""
_CAPACITY: Final = 32
_PATIENCE_S: Final = 2.0
_TIDYING_S: Final = 60.0
"""For a box whose calls have folders of the host: the warden may have to remove a million files."""
_MAX_LAST_WORDS: Final = 8192
_WARDEN_ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8", "LD_BIND_NOW": "1", "PATH": "/usr/bin:/bin"}
"""With `LD_BIND_NOW` the dynamic linker binds symbols once, and not again in each child that is forked for a call."""

_RESTING_PROCESSES: Final = 2


class GroupSlot:
    """A group that holds one call at a time."""

    def __init__(self, id: int, group: Group) -> None:
        self.id = id
        self._group = group
        folders = {controller: group.folder(controller) for controller in group.hierarchies.parents}
        self._counters = Counters(folders, version=group.hierarchies.version)
        self._before = Reading(cpu_s=0.0)
        self._now = self._before

    def open_cgroup_fds(self) -> list[int]:
        """Open the files that a child writes "0" to in order to enter the slot; the caller closes them."""
        # A child has one thread. Moving a single thread (`tasks`, in version 1) spares the kernel a lock over all
        # threads of the machine, which can take 10 ms. Open all files or none: another task may be removing the group.
        opened: list[int] = []
        with ExitStack() as stack:
            for file in self._group.entry_files():
                opened.append(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
                stack.callback(os.close, opened[-1])
            stack.pop_all()
        return opened

    def read(self) -> Reading:
        """Return the usage since the last `renew`."""
        self._now = cpu_s, memory_peak, processes_peak, kills, refusals, _ = self._counters.read()
        cpu_before, _, _, kills_before, refusals_before, _ = self._before
        return Reading(
            None if cpu_s is None else cpu_s - (cpu_before or 0.0),
            memory_peak,
            None if processes_peak is None else max(processes_peak - GUARD_PROCESSES, 1),
            max(kills - kills_before, 0),
            max(refusals - refusals_before, 0),
        )

    def renew(self) -> bool:
        """Start counting again at the last reading; return False if a counter cannot be reset."""
        try:
            return self._can_be_renewed() and self._counters.reset_memory_peak()
        finally:
            self._before = self._now
            self._counters.close()

    def close(self) -> None:
        """Remove the group; the box removes a group whose processes are still dying."""
        self._counters.close()
        self._group.remove()

    def _can_be_renewed(self) -> bool:
        peak = self._now.processes_peak
        return self._group.hierarchies.version == 1 and peak is not None and peak <= _RESTING_PROCESSES


@dataclass(frozen=True, slots=True)
class Started:
    """A runner before its first message, and our ends of the sockets that lead to it."""

    process: subprocess.Popen[bytes]
    channel: SocketChannel
    handoff: socket.socket | None
    """The socket for listeners from its guards, if its calls have egress."""
    egress: int | None
    """The descriptor of the other end in the runner."""


class SubprocessBox(Box):
    """A box around a started runner; the box is gone when `close` returns."""

    capacity = _CAPACITY

    def __init__(
        self,
        started: Started,
        *,
        walls: Mapping[str, JsonValue],
        group: Group | None,
        limits: Limits,
        is_plain: bool,
        handoff: ListenerHandoff | None = None,
    ) -> None:
        self._patience_s = _TIDYING_S if is_plain else _PATIENCE_S
        self._process = started.process
        self._channel = started.channel
        self._handoff = handoff
        self._walls = walls
        self._group = group
        self._limits = limits
        self._next_slot = int(FIRST_SLOT)
        self._next_line = 0
        self._last_words = b""
        self._watch_stderr()

    @property
    def walls(self) -> Mapping[str, JsonValue]:
        return self._walls

    @property
    def warden(self) -> int:
        """Return the pid of the box's outermost process."""
        return self._process.pid

    def listen(self, receiver: Receiver) -> None:
        self._channel.listen(receiver)

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        self._channel.send(data, descriptors)

    async def all_sent(self) -> None:
        await self._channel.all_sent()

    def add_slots(self, count: int) -> Sequence[GroupSlot]:
        if self._group is None:
            return ()
        return [self._new_slot(self._group) for _ in range(count)]

    def _new_slot(self, box: Group) -> GroupSlot:
        group = box.below(str(self._next_slot))
        group.create()
        group.limit(self._limits)
        self._next_slot += 1
        return GroupSlot(self._next_slot - 1, group)

    def open_pipes(self) -> ChildPipes | None:
        self._next_line += 1
        return open_child_pipes(self._next_line)

    def traffic(self, label: str) -> CallTraffic | None:
        return None if self._handoff is None else self._handoff.traffic(label)

    def memory_bytes(self) -> int:
        # Shared pages count once in a control group; without one they count in each process.
        if self._group is not None:
            return self._group.memory_bytes()
        import psutil

        with suppress(psutil.Error):
            warden = psutil.Process(self._process.pid)
            return sum(process.memory_info().rss for process in (warden, *warden.children(recursive=True)))
        return 0

    def last_words(self) -> str:
        assert self._process.stderr is not None
        if not self._process.stderr.closed:
            self._read_stderr()
        return self._last_words.decode("utf-8", "replace")

    async def close(self) -> str:
        self._channel.close()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        await self._gone()
        if self._handoff is not None:
            await self._handoff.close()
        self._forget_stderr()
        if self._group is not None:
            await _until(self._group.remove, _PATIENCE_S)
        return self._last_words.decode("utf-8", "replace")

    async def _gone(self) -> None:
        # The warden ends by itself when its standard input closes; if not, it is killed, and the box with it.
        if not await _until(lambda: self._process.poll() is not None, self._patience_s):
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            await _until(lambda: self._process.poll() is not None, _PATIENCE_S)

    def _watch_stderr(self) -> None:
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        asyncio.get_running_loop().add_reader(self._process.stderr, self._read_stderr)

    def _read_stderr(self) -> None:
        """Keep the end of the runner's stderr, with a bounded size."""
        assert self._process.stderr is not None
        try:
            data = os.read(self._process.stderr.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._last_words = (self._last_words + data)[-_MAX_LAST_WORDS:]
        else:
            asyncio.get_running_loop().remove_reader(self._process.stderr)

    def _forget_stderr(self) -> None:
        assert self._process.stderr is not None
        self._read_stderr()
        asyncio.get_running_loop().remove_reader(self._process.stderr)
        self._process.stderr.close()


def spawn(python: Path, runner: Path, *, groups: Sequence[str], reaches_public: bool = False) -> Started:
    """Start a runner. Must be called on the event loop's own thread, because the kernel ties the warden's life to the
    thread that started it."""
    ours, theirs = socket.socketpair()
    handoff, egress = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if reaches_public else (None, None)
    passed = [each.fileno() for each in (theirs, egress) if each is not None]
    try:
        process = subprocess.Popen(
            [python, "-I", "-S", "-B", runner / "__main__.py", str(theirs.fileno()), *groups],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env=_WARDEN_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        ours.close()
        if handoff is not None:
            handoff.close()
        raise
    finally:
        theirs.close()
        if egress is not None:
            egress.close()
    return Started(process, SocketChannel(ours), handoff, passed[1] if reaches_public else None)


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds, with growing pauses; return False if it never does."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + seconds, 0.0005
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True
