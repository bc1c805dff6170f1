"""The supervisor of one call in its box: its output as it comes, its clocks, and its end.

Everything that can stop a call from outside is here: the time limit, the processor time that its slot counts, the
output limit, and the caller's cancellation. Each asks the box once to kill the call's whole process tree and notes why.
The call then ends like any other, with what it printed and left until then. If the box does not answer within a grace
time, the supervisor gives the box up.

The supervisor reads output at the pace that the policy allows and the listener keeps. Bytes that were read are granted
to the runner again: at once, later (for a tool over its output rate), or when the listener of a stream has taken them.

A value ends the call: the supervisor does not wait for the exit of a process that returned one. After any other reply
it waits, because the verdict needs the counters of the guard's last record, such as the room left on the private disk.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from sandbox.engine.inputs import InputFile
from sandbox.engine.replies import LARGE_BYTES, Answer, aside, is_sent, read_answer
from sandbox.engine.result import CallEnd, CallResult, KillReason, measured_usage
from sandbox.engine.streams import StreamCapture, StreamListener, unpaced
from sandbox.outcome import Isolation
from sandbox.outputs.artifacts.receiver import FileReceiver, ReceivedFiles
from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.budgets import DEFAULT_BUDGETS, Budgets
from sandbox.policy import OverflowAction, Policy, ReuseMode, SlowReader
from sandbox.pool.box import Lease
from sandbox.protocol.frames import Stream
from sandbox.protocol.messages import NO_END, Ended, Replied, ValueReply
from sandbox.protocol.running_call import RunningCall
from sandbox.protocol.timers import Timer
from sandbox.protocols import Reading
from sandbox.threads import Threads

_GRACE_S: Final = 2.0
# In a single-use box the tool may reach the process that is to end it, and no other call loses the box.
_SINGLE_USE_GRACE_S: Final = 0.5
_LAST_WORDS_S: Final = 1.0
"""How long a call that must end may take to send the next of its files, or its guard to send the last record."""
_LINGER_S: Final = 0.25
# The caller has its outcome already, and a busy machine is no reason to give a box up.
_LINGER_GRACE_S: Final = 10.0
_COLLECTING_S: Final = 10.0
"""How long the supervisor waits for more of a call's files before it gives them up."""
_MIN_CPU_CHECK_S: Final = 0.02
_NOTHING: Final = Reading()
_NO_FILES: Final = ReceivedFiles()
# The kill ended the process, so these say nothing about the tool. The counters of the same record do.
_CAUSED_BY_KILL: Final = {"exit_code": None, "signal": None, "killed_by": None, "seen": None}


class CallSupervisor:
    """Supervises one call on a lease."""

    def __init__(
        self,
        lease: Lease,
        *,
        policy: Policy,
        threads: Threads,
        budgets: Budgets = DEFAULT_BUDGETS,
        listener: StreamListener | None = None,
        writer: ArtifactWriter | None = None,
    ) -> None:
        self._lease = lease
        self._pooled = lease.pooled
        self._session = lease.pooled.session
        self._policy = policy
        self._on_output = None if listener is None else listener.on_output
        self._on_item = None if listener is None else listener.on_item
        is_single_use = policy.reuse.mode is ReuseMode.NEVER
        self._grace_s = _SINGLE_USE_GRACE_S if is_single_use else _GRACE_S
        self._linger_grace_s = _SINGLE_USE_GRACE_S if is_single_use else _LINGER_GRACE_S
        self._waits_for_listener = policy.output.slow_reader is SlowReader.WAIT
        self._budgets = budgets
        self._writer = writer
        self._threads = threads
        self._streams: dict[Stream, StreamCapture] = {}
        self._receiver: FileReceiver | None = None
        self._files_seen = 0
        self._has_files = False
        self._timers: list[Timer] = []
        self._kill_reason: KillReason | None = None
        self._call: RunningCall
        self._begun = self._due = 0.0
        self._counts_from_start = False
        self._has_value = False
        self._has_lingered = False
        self._feeding: asyncio.Task[None] | None = None
        self._reading = _NOTHING

    async def run(
        self, request: bytes, *, limits: Mapping[str, float], value_limit: int, files: Sequence[InputFile] = ()
    ) -> CallResult:
        """Send the call and see it to its end.

        If the caller is cancelled, the call is killed before the cancellation goes on, and `result` returns what was
        seen until then.
        """
        self._start(request, limits=limits, value_limit=value_limit, files=files)
        try:
            await self._call.replied
            if not self._call.ended.done():
                self._after(_LINGER_S, self._end_lingering)
            large = len(self._call.value) > LARGE_BYTES
            answer = await aside(self._read, self._threads) if large else self._read()
            self._has_files = self._writer is not None and isinstance(answer, Replied) and answer.files
            self._has_value = self._is_complete(answer)
            if not self._has_value:
                self._settle(await asyncio.shield(self._call.ended))
                await self._ask_why_box_died()
        except asyncio.CancelledError:
            self._stop(KillReason.CANCELLED)
            await _settled(self._call.ended)
            raise
        finally:
            if self._feeding is not None and self._call.ended.done():
                await _end_feeding(self._feeding)
        result = self.result(answer)
        if self._receiver is None and not self._has_files:
            return result
        return self.result(answer, files=await self._finish_files(), ended_at=result.ended_at)

    def result(
        self, answer: Answer | None = None, *, files: ReceivedFiles = _NO_FILES, ended_at: float | None = None
    ) -> CallResult:
        """Return what was seen of the call."""
        call = self._call
        ended = NO_END if self._has_value else call.ended.result()
        if self._has_lingered:
            ended = ended.model_copy(update=_CAUSED_BY_KILL)
        end = CallEnd(
            ended=ended,
            value=bytes(call.value),
            limits=self._policy.limits,
            reading=self._reading,
            wall_s=time.monotonic() - self._begun,
            kill_reason=None if self._has_value else self._kill_reason,
            was_lost=call.was_lost,
            value_overflowed=call.value_overflowed,
            answer=answer,
        )
        return CallResult(
            end=end,
            usage=measured_usage(end, cpu_before=self._cpu_before()),
            layers=bytes(call.walls),
            stdout=self._streams.get(Stream.STDOUT),
            stderr=self._streams.get(Stream.STDERR),
            files=files,
            is_started=call.is_started,
            was_ahead=call.was_ahead,
            environment_fault=call.environment_fault,
            ended_at=time.perf_counter() if ended_at is None else ended_at,
        )

    # The start of the call

    def _start(
        self, request: bytes, *, limits: Mapping[str, float], value_limit: int, files: Sequence[InputFile]
    ) -> None:
        """Send the call; its clocks run from here on."""
        self._begun = time.monotonic()
        self._counts_from_start = self._pooled.box.count_from_now()
        self._call = self._lease.call = self._session.start(
            request,
            limits=limits,
            value_limit=value_limit,
            take=self._take,
            take_item=self._on_item if self._on_item is None or self._waits_for_listener else self._take_item,
            take_files=len if self._writer is None else self._take_files,
        )
        if files:
            self._feeding = asyncio.create_task(self._feed(files))
        self._call.ended.add_done_callback(self._settle)
        allowed = self._policy.limits
        self._due = asyncio.get_running_loop().time() + allowed.wall
        self._after(min(allowed.wall, allowed.cpu / allowed.cpus), self._check_time)

    async def _feed(self, files: Sequence[InputFile]) -> None:
        """Send the call its files. A file that changed since it was measured ends the call."""
        try:
            for each in files:
                async for piece in each.pieces(self._threads):
                    await self._session.feed(self._call, piece)
        except BaseException:
            self._stop(KillReason.CANCELLED)
            raise

    # The reply and the end

    def _read(self) -> Answer | None:
        value = bytes(self._call.value)
        return read_answer(value) if is_sent(value) else None

    def _is_complete(self, answer: Answer | None) -> bool:
        """Return whether there is a value and everything else can be read from outside.

        Nothing then waits for the exit of the process, which gets a moment for that before it is killed.
        """
        call = self._call
        if call.ended.done() or call.slot is None or self._kill_reason is not None:
            return False
        if call.value_overflowed or self._has_files or not isinstance(answer, ValueReply):
            return False
        self._reading = call.slot.read()
        return not self._reading.out_of_memory_kills

    async def _ask_why_box_died(self) -> None:
        """Ask the backend, for a box that died took its counters along, and a kill without counters has no reason."""
        if self._kill_reason is not None or self._reading.out_of_memory_kills:
            return
        ended = self._call.ended.result()
        is_unexplained = self._reading.cpu_s is None and ended.signal == signal.SIGKILL and ended.killed_by is None
        if self._call.was_lost or is_unexplained:
            last = await self._pooled.box.last_reading()
            self._reading = self._reading._replace(out_of_memory_kills=last.out_of_memory_kills)

    def _cpu_before(self) -> float:
        """Return the processor time that the call's child had used before the call came, if its slot counted that."""
        # In a kernel of its own, a tool can write where its runner does. Its word must not lower what was measured.
        if self._pooled.box.protection.isolation is Isolation.MACHINE:
            return 0.0
        return 0.0 if self._counts_from_start and self._call.was_ahead else self._call.cpu_before

    def _settle(self, _: object) -> None:
        """Stop the clocks of a call that ended, read its slot and free it. Runs on whichever notice comes first."""
        for timer in self._timers:
            timer.cancel()
        if self._call.slot is not None:
            self._reading = self._call.slot.read()
            self._pooled.release_slot(self._call)

    # Output and files

    def _take(self, stream: Stream, data: bytes) -> int:
        """Keep what the outcome may show, and return how many bytes may follow at once."""
        if self._has_value:  # the call is over, and its result must not change any more
            return len(data)
        captured = self._streams.get(stream) or self._new_stream(stream)
        captured.capture.feed(data)
        if captured.capture.over_limit and self._policy.output.over is OverflowAction.KILL:
            self._stop(KillReason.OUTPUT)
        spool = captured.spool
        delay = captured.limiter.delay(len(data), now=time.monotonic())
        if self._on_output is not None and self._waits_for_listener:
            self._on_output(stream, data, lambda size: self._grant(size, delay, spool))
            return 0
        if self._on_output is not None:
            self._on_output(stream, data, unpaced)
        if delay or (spool is not None and spool.is_behind):
            self._grant(len(data), delay, spool)
            return 0
        return len(data)

    def _new_stream(self, stream: Stream) -> StreamCapture:
        room = self._budgets.stdout if stream is Stream.STDOUT else self._budgets.stderr
        captured = self._streams[stream] = StreamCapture(room, self._policy, self._writer)
        return captured

    def _grant(self, size: int, delay: float, spool: StreamSpool | None) -> None:
        """Grant `size` more bytes once the spool has caught up and the stream's rate allows it."""
        if spool is not None and spool.is_behind:
            spool.when_written(lambda: self._grant(size, delay, None))
        elif delay:
            self._after(delay, lambda: self._session.flow.grant(self._call, size))
        else:
            self._session.flow.grant(self._call, size)

    def _take_item(self, item: bytes, grant: Callable[[], None]) -> None:
        """Pass an item on without waiting for the listener."""
        assert self._on_item is not None
        grant()
        self._on_item(item, lambda: None)

    def _take_files(self, data: bytes) -> int:
        if self._receiver is None:
            self._receiver = self._new_receiver()
        return self._receiver.take(data)

    def _new_receiver(self) -> FileReceiver:
        assert self._writer is not None
        limits = self._policy.limits
        return FileReceiver(
            self._writer,
            most_files=limits.artifacts,
            most_bytes=limits.artifact_bytes,
            grant=lambda size: self._session.flow.grant_files(self._call, size),
        )

    async def _finish_files(self) -> ReceivedFiles:
        if self._receiver is None:
            self._receiver = self._new_receiver()
        return await self._receiver.finish(is_expected=self._has_files)

    def _files_taken(self) -> int:
        return 0 if self._receiver is None else self._receiver.taken

    # Clocks and kills

    def _check_time(self) -> None:
        """Stop a call that is out of time, or check again when it could be."""
        limits = self._policy.limits
        left = self._due - asyncio.get_running_loop().time()
        if left <= 0:
            self._stop(KillReason.TIMEOUT)
            return
        cpu_left = self._cpu_left()
        if cpu_left is None:
            self._after(left, self._check_time)
        elif cpu_left > 0:
            self._after(min(left, max(cpu_left / limits.cpus, _MIN_CPU_CHECK_S)), self._check_time)
        else:
            self._stop(KillReason.CPU)

    def _cpu_left(self) -> float | None:
        """Return the processor time that the call may still use, or None if nothing outside counts it."""
        if self._call.slot is None:
            return None if self._call.is_started else _MIN_CPU_CHECK_S
        used = self._call.slot.read().cpu_s
        return None if used is None else self._policy.limits.cpu - used

    def _stop(self, reason: KillReason) -> None:
        """Kill the call. The first reason counts."""
        if self._kill_reason is not None or self._call.has_replied:
            return
        self._kill_reason = reason
        if reason is KillReason.CANCELLED or self._writer is None:
            self._kill()
            return
        self._session.kill(self._call, wants_files=True)
        self._after(_LAST_WORDS_S, self._end_last_words)

    def _end_last_words(self) -> None:
        """Kill the call at once, unless more of its files came."""
        taken = self._files_taken()
        seen, self._files_seen = self._files_seen, taken
        if taken > seen:
            self._after(_LAST_WORDS_S, self._end_last_words)
        else:
            self._kill()

    def _kill(self) -> None:
        self._session.kill(self._call)
        self._after(self._grace_s, self._give_up)

    def _end_lingering(self) -> None:
        """Kill a process that replied and did not exit, unless files still come or it was killed already."""
        if self._kill_reason is not None:
            return
        taken = self._files_taken()
        if self._has_files and (not self._files_seen or taken > self._files_seen):
            self._files_seen = taken or 1
            self._after(_COLLECTING_S, self._end_lingering)
            return
        self._has_lingered = True
        if self._has_value:
            self._kill_lingering()
            return
        # The guard must outlive the tool here: the verdict needs the counters of its last record.
        self._session.kill(self._call, wants_files=True)
        self._after(_LAST_WORDS_S, self._kill_lingering)

    def _kill_lingering(self) -> None:
        self._session.kill(self._call)
        self._after(self._linger_grace_s, self._give_up)

    def _give_up(self) -> None:
        self._session.abandon("its runner did not end a call that was killed")

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        if len(self._timers) > 1:
            self._timers = [each for each in self._timers if each.is_pending]
        self._timers.append(self._session.timers.after(seconds, action))


async def _end_feeding(feeding: asyncio.Task[None]) -> None:
    """Stop sending files to a call that ended, and raise what went wrong with that."""
    if not feeding.done():
        feeding.cancel()
    await asyncio.wait([feeding])
    if not feeding.cancelled():
        feeding.result()


async def _settled(ended: asyncio.Future[Ended]) -> None:
    """Wait for the end of a killed call, even if the caller is cancelled again meanwhile."""
    while not ended.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(ended)
