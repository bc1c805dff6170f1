"""Watching one call in its box: its output as it comes, its clocks, and the end of it.

Everything that can stop a call from outside is here: the time limit, the processor time counted by its slot, the output
limit, and the caller's cancellation. Each asks the box to kill the call's whole tree once and notes why; the call then
ends like any other, with what it printed and left until then. If the box does not answer within a grace time it is
given up.

Output is taken at the pace the policy allows and the reader manages: what is taken is granted again to the runner, at
once, later (a tool over its output rate), or when the reader of a stream has taken it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from sandbox.engine.input_files import GivenFile
from sandbox.engine.replies import LARGE_BYTES, Answer, aside, is_sent, read_answer
from sandbox.engine.streams import StreamCapture, StreamListener, unpaced
from sandbox.engine.verdict import CallEnd, KillReason
from sandbox.outcome import Shaped
from sandbox.outputs.artifacts.receiver import FileReceiver, ReceivedFiles
from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.budgets import DEFAULT_BUDGETS, Budgets, OutputBudget
from sandbox.outputs.shaping import nothing
from sandbox.policy import OverflowAction, Policy, ReuseMode, SlowReader
from sandbox.pool.pool import PooledBox
from sandbox.protocol.frames import Stream
from sandbox.protocol.messages import NO_END, Ended, Replied, ValueReply
from sandbox.protocol.running_call import RunningCall
from sandbox.protocol.timers import Timer
from sandbox.protocols import Reading
from sandbox.threads import Threads

_GRACE_S: Final = 2.0
_GRACE_OF_ONE_CALL_S: Final = 0.5
"""Where a box stands for one call: its tool may reach who is to end that there, and no other call loses it."""
_LAST_WORDS_S: Final = 1.0
"""How long a call that is to end may take to send the next of what it left."""
_LINGER_S: Final = 0.25
_LINGER_GRACE_S: Final = 10.0
"""Nobody waits for the end of a call that has given its value, and a busy machine is no reason to give its box up."""
_COLLECTING_S: Final = 10.0
"""How long nothing may come of the files that a call left, before they are given up."""
_LEAST_CPU_CHECK_S: Final = 0.02
_NOTHING: Final = Reading()


class CallSupervisor:
    """One call under way."""

    def __init__(
        self,
        pooled: PooledBox,
        *,
        policy: Policy,
        threads: Threads,
        budgets: Budgets = DEFAULT_BUDGETS,
        reader: StreamListener | None = None,
        keeping: ArtifactWriter | None = None,
    ) -> None:
        self._pooled = pooled
        self._policy = policy
        self._on_output = None if reader is None else reader.on_output
        self._on_item = None if reader is None else reader.on_item
        is_for_one_call = policy.reuse.mode is ReuseMode.NEVER
        self._grace_s = _GRACE_OF_ONE_CALL_S if is_for_one_call else _GRACE_S
        self._linger_grace_s = _GRACE_OF_ONE_CALL_S if is_for_one_call else _LINGER_GRACE_S
        self._waits_for_reader = policy.output.slow_reader is SlowReader.WAIT
        self.budgets = budgets
        self.keeping = keeping
        self.threads = threads
        self._outputs: dict[Stream, StreamCapture] = {}
        self._arrivals: FileReceiver | None = None
        self._files_seen = 0
        self._has_files = False
        self._appointments: list[Timer] = []
        self._stopped_for: KillReason | None = None
        self.call: RunningCall
        self._begun = self._due = 0.0
        self._counts_from_start = False
        self._has_lingered = False
        self._feeding: asyncio.Task[None] | None = None
        self.reading = _NOTHING

    def shown(self, stream: Stream, *, artifact: str | None = None) -> Shaped:
        """What was printed there, as it is shown."""
        output = self._outputs.get(stream)
        return nothing(self._room(stream).type) if output is None else output.capture.shape(artifact=artifact)

    async def shown_in_room(self, stream: Stream, *, artifact: str | None = None) -> Shaped:
        """The same where the room is one of tokens, which may take its time."""
        room, output = self._room(stream), self._outputs.get(stream)
        if room.tokens is None or output is None:
            return self.shown(stream, artifact=artifact)
        shape = output.capture.shape_of_now(artifact=artifact)
        return await self.threads.do(lambda: self.budgets.fitted(room, shape))

    def spill(self, stream: Stream) -> StreamSpool | None:
        """All that was printed there; None where that is nothing, or is not kept."""
        output = self._outputs.get(stream)
        return None if output is None else output.spill

    @property
    def has_left(self) -> bool:
        """Whether it printed anything, or left files."""
        return bool(self._outputs) or self._has_files or self._arrivals is not None

    async def arrived(self) -> ReceivedFiles:
        """What became of the files that the call left, after its end."""
        if self._arrivals is None and self._has_files:
            self._arrivals = self._new_arrivals()
        return ReceivedFiles() if self._arrivals is None else await self._arrivals.finish(is_expected=self._has_files)

    def start(
        self, request: bytes, *, limits: Mapping[str, float], value_limit: int, files: Sequence[GivenFile] = ()
    ) -> RunningCall:
        """Send the call; from here on its clocks run."""
        self._begun = time.monotonic()
        self._counts_from_start = self._pooled.box.count_from_now()
        self.call = self._pooled.session.start(
            request,
            limits=limits,
            value_limit=value_limit,
            take=self._take,
            take_item=self._on_item if self._on_item is None or self._waits_for_reader else self._take_item,
            take_files=len if self.keeping is None else self._take_files,
        )
        if files:
            self._feeding = asyncio.create_task(self._feed(files))
        self.call.ended.add_done_callback(self._settle)
        allowed = self._policy.limits
        self._due = asyncio.get_running_loop().time() + allowed.wall
        self._after(min(allowed.wall, allowed.cpu / allowed.cpus), self._check_time)
        return self.call

    @property
    def cpu_before(self) -> float:
        """What the call's child had used before the call came, where that is among what its slot counts."""
        return 0.0 if self._counts_from_start and self.call.was_ahead else self.call.cpu_before

    async def watch(self) -> CallEnd:
        """See the call to its end; a cancelled caller's call is killed first."""
        try:
            await self.call.replied
            if not self.call.ended.done():  # a process that has told all gets a moment to go by itself
                self._after(_LINGER_S, self._end_lingering)
            answer = self._read() if len(self.call.value) <= LARGE_BYTES else await aside(self._read, self.threads)
            self._has_files = self.keeping is not None and isinstance(answer, Replied) and answer.files
            is_enough = self._is_enough(answer)
            if not is_enough:
                self._settle(await asyncio.shield(self.call.ended))
                await self._ask_what_became_of_the_box()
        except asyncio.CancelledError:
            self._stop(KillReason.CANCELLED)
            await _settled(self.call.ended)
            raise
        finally:
            if self._feeding is not None and self.call.ended.done():
                await _end_feeding(self._feeding)
        return self._ending(answer, is_enough=is_enough)

    def ending_cut_short(self) -> CallEnd:
        """That of a call whose caller was cancelled, after its end."""
        return self._ending(None, is_enough=False)

    def _ending(self, answer: Answer | None, *, is_enough: bool) -> CallEnd:
        return CallEnd(
            ended=NO_END if is_enough or self._has_lingered else self.call.ended.result(),
            value=bytes(self.call.value),
            limits=self._policy.limits,
            reading=self.reading,
            wall_s=time.monotonic() - self._begun,
            stopped_for=None if is_enough else self._stopped_for,
            was_lost=self.call.was_lost,
            value_overflowed=self.call.value_overflowed,
            answer=answer,
        )

    async def _feed(self, files: Sequence[GivenFile]) -> None:
        """Send the call its files; one that is not what it was any more ends it."""
        try:
            for each in files:
                async for piece in each.pieces(self.threads):
                    await self._pooled.session.feed(self.call, piece)
        except BaseException:
            self._stop(KillReason.CANCELLED)
            raise

    def _read(self) -> Answer | None:
        """What the tool's process replied, if it did."""
        value = bytes(self.call.value)
        return read_answer(value) if is_sent(value) else None

    def _is_enough(self, answer: Answer | None) -> bool:
        """Whether there is a value, and all else that the outcome tells can be read from outside: then nobody has to
        wait for the end of a process that has nothing more to say. It gets a moment to go by itself, and is killed."""
        if self.call.ended.done() or self.call.slot is None or self._stopped_for is not None:
            return False
        if self.call.value_overflowed or self._has_files or not isinstance(answer, ValueReply):
            return False
        self.reading = self.call.slot.read()
        return not self.reading.out_of_memory_kills

    async def _ask_what_became_of_the_box(self) -> None:
        """A box that died takes its counters along, and where it never had any, a kill tells no reason: only who opened
        it may know why."""
        if self._stopped_for is not None or self.reading.out_of_memory_kills:
            return
        ended = self.call.ended.result()
        is_unexplained = self.reading.cpu_s is None and ended.signal == signal.SIGKILL and ended.killed_by is None
        if self.call.was_lost or is_unexplained:
            last = await self._pooled.box.last_reading()
            self.reading = self.reading._replace(out_of_memory_kills=last.out_of_memory_kills)

    def _room(self, stream: Stream) -> OutputBudget:
        return self.budgets.stdout if stream is Stream.STDOUT else self.budgets.stderr

    def _new_output(self, stream: Stream) -> StreamCapture:
        """The first bytes of a stream are there."""
        output = self._outputs[stream] = StreamCapture(self._room(stream), self._policy, self.keeping)
        return output

    def _take_files(self, data: bytes) -> int:
        """Some of what the call left; most calls leave nothing."""
        if self._arrivals is None:
            self._arrivals = self._new_arrivals()
        return self._arrivals.take(data)

    def _new_arrivals(self) -> FileReceiver:
        assert self.keeping is not None
        limits = self._policy.limits
        return FileReceiver(
            self.keeping,
            most_files=limits.artifacts,
            most_bytes=limits.artifact_bytes,
            grant=lambda size: self._pooled.session.flow.grant_files(self.call, size),
        )

    def _end_lingering(self) -> None:
        taken = 0 if self._arrivals is None else self._arrivals.taken
        if self._has_files and (not self._files_seen or taken > self._files_seen):
            self._files_seen = taken or 1
            self._after(_COLLECTING_S, self._end_lingering)
            return
        self._has_lingered = True
        self._pooled.session.kill(self.call)
        self._after(self._linger_grace_s, self._give_up)

    def _settle(self, _: object) -> None:
        """The call is gone: nothing is left to watch, and its slot can be used again. Whoever learns of it first."""
        for appointment in self._appointments:
            appointment.cancel()
        if self.call.slot is not None:
            self.reading = self.call.slot.read()
            self._pooled.release_slot(self.call)

    def _take_item(self, item: bytes, grant: Callable[[], None]) -> None:
        """An item that nobody is waited for with."""
        assert self._on_item is not None
        grant()
        self._on_item(item, lambda: None)

    def _take(self, stream: Stream, data: bytes) -> int:
        """Keep what shaping needs; how much more may come at once."""
        output = self._outputs.get(stream) or self._new_output(stream)
        output.capture.feed(data)
        if output.capture.over_limit and self._policy.output.over is OverflowAction.KILL:
            self._stop(KillReason.OUTPUT)
        spill = output.spill
        delay = output.pace.delay(len(data), now=time.monotonic())
        if self._on_output is not None and self._waits_for_reader:
            self._on_output(stream, data, lambda size: self._grant(size, delay, spill))
            return 0
        if self._on_output is not None:
            self._on_output(stream, data, unpaced)
        if delay or (spill is not None and spill.is_behind):
            self._grant(len(data), delay, spill)
            return 0
        return len(data)

    def _grant(self, size: int, delay: float, spill: StreamSpool | None) -> None:
        """Once what came has been written, where more waits for that than should, and once the stream's pace allows."""
        if spill is not None and spill.is_behind:
            spill.when_written(lambda: self._grant(size, delay, None))
        elif delay:
            self._after(delay, lambda: self._pooled.session.flow.grant(self.call, size))
        else:
            self._pooled.session.flow.grant(self.call, size)

    def _stop(self, why: KillReason) -> None:
        """Kill the call; the first reason is the one that counts."""
        if self._stopped_for is not None or self.call.has_replied:
            return
        self._stopped_for = why
        if why is KillReason.CANCELLED or self.keeping is None:
            self._kill()
            return
        self._pooled.session.kill(self.call, wants_files=True)
        self._after(_LAST_WORDS_S, self._end_last_words)

    def _end_last_words(self) -> None:
        """Its files come, or it is killed at once."""
        if self._has_moved_on():
            self._after(_LAST_WORDS_S, self._end_last_words)
        else:
            self._kill()

    def _kill(self) -> None:
        self._pooled.session.kill(self.call)
        self._after(self._grace_s, self._give_up)

    def _has_moved_on(self) -> bool:
        """Whether more of its files came since this was asked last."""
        taken = 0 if self._arrivals is None else self._arrivals.taken
        seen, self._files_seen = self._files_seen, taken
        return taken > seen

    def _give_up(self) -> None:
        """The runner does not answer: its box is lost, and everything in it is killed."""
        self._pooled.session.abandon("its runner did not end a call that was killed")

    def _check_time(self) -> None:
        """Stop a call that is out of time; look again when it could be."""
        limits = self._policy.limits
        left = self._due - asyncio.get_running_loop().time()
        if left <= 0:
            self._stop(KillReason.TIMEOUT)
            return
        cpu_left = self._cpu_left()
        if cpu_left is None:
            self._after(left, self._check_time)
        elif cpu_left > 0:
            self._after(min(left, max(cpu_left / limits.cpus, _LEAST_CPU_CHECK_S)), self._check_time)
        else:
            self._stop(KillReason.CPU)

    def _cpu_left(self) -> float | None:
        """Processor time that the call may still use, by its slot; None where nobody counts it from outside."""
        if self.call.slot is None:
            return None if self.call.is_started else _LEAST_CPU_CHECK_S
        used = self.call.slot.read().cpu_s
        return None if used is None else self._policy.limits.cpu - used

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        if self._appointments:
            self._appointments = [each for each in self._appointments if each.is_pending]
        self._appointments.append(self._pooled.session.timers.after(seconds, action))


async def _end_feeding(feeding: asyncio.Task[None]) -> None:
    """The call has ended: nothing more is sent, and what went wrong with that is told."""
    if not feeding.done():
        feeding.cancel()
    await asyncio.wait([feeding])
    if not feeding.cancelled():
        feeding.result()


async def _settled(ended: asyncio.Future[Ended]) -> None:
    """Wait for a killed call's end, however often we are cancelled meanwhile."""
    while not ended.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(ended)
