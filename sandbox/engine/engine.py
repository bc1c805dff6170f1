"""The engine: one call, from its spec to its outcome.

The engine knows all parts and does little itself. The engine reads the tool and binds its arguments (nothing runs if
they do not fit), tightens the policy, waits for a turn, leases a box, and lets a supervisor run the call there. The
outcome is then a function of the plan, the supervisor's result, and the facts of the box.

Some limits shape the *box* (memory, processes, disk, processors), others only the *call* (time, output, value). The
function `box_policy` draws that line, so calls that differ only in the latter share a warm box.

A tool's failure is an outcome; every exception here is a failure of the engine or of the request. The engine retries a
call once, in a new box, if the box died before the call started. A call that may have run is never retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter as now
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from cachetools import LRUCache

from sandbox.backends.base import Backend, ImageGone
from sandbox.backends.hints import missing_walls, remedy_of_shortage
from sandbox.engine.environments import EnvironmentSupply, needs_of
from sandbox.engine.inputs import Inputs, read_inputs
from sandbox.engine.outcomes import build_outcome, cancelled_outcome, invalid_outcome
from sandbox.engine.plan import (
    CallTemplate,
    CallTiming,
    PreparedCall,
    box_policy,
    limits_for,
    limits_key,
    policy_for,
    template_weight,
)
from sandbox.engine.request import complete_request
from sandbox.engine.result import CallResult
from sandbox.engine.streams import StreamListener
from sandbox.engine.supervisor import CallSupervisor
from sandbox.environments import Environment, bare_environment
from sandbox.environments.progress import OnProgress, ignore_progress
from sandbox.errors import CallCancelled, CallNotStarted, EngineClosed, IsolationUnavailable, SandboxError, SpecError
from sandbox.outcome import Outcome, Status
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.tokens import Tokenizer
from sandbox.policy import Policy, load, tighten
from sandbox.pool.box import Lease, PooledBox
from sandbox.pool.limiter import FairLimiter, KeyedLocks
from sandbox.pool.opener import CALL_AGAIN
from sandbox.pool.pool import Pool, PoolStatistics
from sandbox.spec import CallSpec, EnvironmentSpec
from sandbox.threads import Threads
from sandbox.tools import read_tool

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock
    from sandbox.environments.provider import Needs

DEFAULT_CONCURRENCY: Final = 32
DEFAULT_WARM_MEMORY: Final = 2 << 30

_REPLY_OVERHEAD: Final = 1 << 16
_MAX_TEMPLATES: Final = 32 << 20
"""Bytes that templates may hold together."""
_MAX_ATTEMPTS: Final = 2
_UNLOCKED: Final = nullcontext()
_NEEDED_AFTER: Final = {Status.EXCEPTION: ("ast", "traceback")}
"""Modules preloaded after the first exception. Tracebacks need them, and they are a quarter of a box's memory."""
_UNCLEAN: Final = frozenset({Status.TIMEOUT, Status.MEMORY, Status.LIMIT, Status.CRASHED, Status.CANCELLED})


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an engine."""

    concurrency: int = DEFAULT_CONCURRENCY
    """How many calls run at once. Further calls wait for their turn."""
    warm_memory: int = DEFAULT_WARM_MEMORY
    """Bytes of memory that warm boxes may hold together."""
    store: Path | None = None
    """The folder for environments. The default is the user's cache folder."""
    artifacts: ArtifactStore = field(default_factory=ArtifactStore)
    """The store for what calls leave."""
    tokenizer: Tokenizer | None = None
    """Counts the tokens of a text, for budgets in tokens."""
    is_offline: bool = False
    """Whether to ask no package index, even if a policy allows it."""
    on_progress: OnProgress = ignore_progress
    """Called with the progress of builds."""


class _UnderWay:
    """Registers a task with the engine, so that `close` can end it."""

    __slots__ = ("_cut_off", "_explain", "_is_outermost", "_task", "_tasks")

    def __init__(
        self, tasks: set[asyncio.Task[Any]], *, cut_off: WeakSet[asyncio.Task[Any]], explain: Callable[[], None]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._tasks = tasks
        self._cut_off = cut_off
        self._explain = explain
        self._is_outermost = task not in tasks

    def __enter__(self) -> None:
        self._tasks.add(self._task)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._is_outermost:
            return
        self._tasks.discard(self._task)
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        if is_cancelled and self._task.cancelling() == 1 and self._task in self._cut_off:
            self._task.uncancel()
            self._explain()


class Engine:
    """Runs calls. Made on, and used from, one event loop."""

    def __init__(self, backend: Backend, settings: EngineSettings) -> None:
        self._backend = backend
        self._limiter = FairLimiter(settings.concurrency)
        self._serial_calls = KeyedLocks()
        self._pool = Pool(backend, max_memory=settings.warm_memory)
        self.threads = Threads()
        self._policies: dict[str, Policy] = {}
        self._templates: LRUCache[tuple[Hashable, ...], CallTemplate] = LRUCache(
            _MAX_TEMPLATES, getsizeof=template_weight
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut_off: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._settings = settings
        self._environments = EnvironmentSupply(
            backend,
            self._pool,
            threads=self.threads,
            store=settings.store,
            is_offline=settings.is_offline,
            on_progress=settings.on_progress,
        )
        self._is_closed = False
        self._lacks_namespaces = False
        """Whether this host turned out to have none."""

    @property
    def pool(self) -> Pool:
        """The warm boxes."""
        return self._pool

    async def run(self, spec: CallSpec, listener: StreamListener | None = None) -> Outcome:
        """Run one call.

        If the awaiting task is cancelled, the call is killed and the cancellation goes on. `CallCancelled.of` then
        finds the outcome of the call until that moment.
        """
        with self._under_way():
            call = self._plan(spec)
            inputs = read_inputs(call.template.tool, spec, call.template.policy.limits)
            if inputs.problems:
                return invalid_outcome(call, inputs.problems)
            call = await self._equip(call)
            call.timing.equipped = now()
            async with self._serialized(call), self._limiter.turn(spec.tenant):
                call.timing.admitted = now()
                return await self._run_in_box(call, inputs, listener)

    async def prepare(self, spec: CallSpec) -> None:
        """Make the environment and a box for such calls ready, or as many single-use boxes as the policy keeps."""
        with self._under_way():
            call = await self._equip(self._plan(spec))
            is_plain = self._is_plain(call)
            try:
                await self._pool.prepare(*call.template.box(is_plain=is_plain))
            except IsolationUnavailable:
                if is_plain or not call.template.accepts_plain:
                    raise
                self._lacks_namespaces = True
                await self._pool.prepare(*call.template.box(is_plain=True))

    async def lock(self, spec: EnvironmentSpec, *, refresh: bool = False) -> Lock:
        """Resolve the requirements to a lock. With `refresh`, ask the indexes again."""
        with self._under_way():
            return await self._environments.lock(self._needs(spec), refresh=refresh)

    async def build(self, spec: EnvironmentSpec, *, lock: Lock | None = None) -> Environment:
        """Build the environment of the requirements, or of an earlier lock, unless the store has it."""
        with self._under_way():
            return await self._environments.build(self._needs(spec), lock=lock)

    async def statistics(self) -> PoolStatistics:
        """Return how many boxes there are, and how calls got theirs."""
        self._refuse_if_closed()
        return self._pool.statistics

    async def close(self) -> None:
        """End every call and close every box. Nothing is left behind."""
        self._is_closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            # A second cancellation would look like one by the task's own caller.
            if task not in self._cut_off:
                self._cut_off.add(task)
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._environments.settle()
        await self._pool.close()
        await self._backend.close()
        await self._environments.close()
        self.threads.close()

    def _under_way(self) -> _UnderWay:
        """Register the current task with `close`. A call that `close` cut off learns why."""
        self._refuse_if_closed()
        return _UnderWay(self._tasks, cut_off=self._cut_off, explain=self._refuse_if_closed)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")

    # Planning

    def _plan(self, spec: CallSpec) -> PreparedCall:
        timing = CallTiming()
        if self._settings.tokenizer is None and spec.counts_tokens:
            raise SpecError(
                "tokens cannot be counted: the engine has no tokenizer",
                remedy="pass Sandbox(tokenizer=…) or --tokenizer",
            )
        # The template keeps the policy alive, so no other policy can have its id.
        policy = spec.policy if isinstance(spec.policy, str) else id(spec.policy)
        limits = limits_key(spec.limits) if spec.limits else ()
        if limits is None:
            return PreparedCall(spec, self._new_template(spec), timing)
        key = (spec.source, spec.filename, spec.entry, policy, spec.tenant, limits)
        try:
            template = self._templates[key]
        except KeyError:
            template = self._new_template(spec)
            if template_weight(template) <= _MAX_TEMPLATES:
                self._templates[key] = template
        return PreparedCall(spec, template, timing)

    def _new_template(self, spec: CallSpec) -> CallTemplate:
        tool = read_tool(spec.source, filename=spec.filename, entry=spec.entry)
        granted = self._granted(spec)
        lowered = policy_for(tool, granted)
        policy = tighten(lowered, limits_for(tool, lowered, spec.limits))
        shaping = self._backend.tightened(box_policy(lowered, policy))
        return CallTemplate(tool, granted, policy, shaping, bare_environment(), spec.tenant, self._settings.tokenizer)

    def _granted(self, spec: CallSpec | EnvironmentSpec) -> Policy:
        """Return the policy as its operator wrote it, read once."""
        if isinstance(spec.policy, Policy):
            return spec.policy
        if spec.policy not in self._policies:
            self._policies[spec.policy] = load(spec.policy)
        return self._policies[spec.policy]

    async def _equip(self, call: PreparedCall) -> PreparedCall:
        """Return the call with the environment that its tool requires."""
        template = call.template
        requires = template.tool.requirements or call.spec.requirements or template.tool.requires_python
        needs = needs_of(template.tool, call.spec, policy=template.policy) if requires else None
        environment = await self._environments.for_call(needs)
        if environment is template.environment:
            return call
        return PreparedCall(call.spec, template.within(environment), call.timing)

    def _needs(self, spec: EnvironmentSpec) -> Needs:
        """Return the requirements of a spec, with those of its tool's source."""
        tool = read_tool(spec.source, filename=spec.filename) if spec.source is not None else None
        return needs_of(tool, spec, policy=self._granted(spec))

    def _serialized(self, call: PreparedCall) -> AbstractAsyncContextManager[object]:
        """Return the lock of a tool whose calls must not overlap. Most tools need none."""
        tool = call.template.tool
        if tool.settings.enable_parallel_execution is not False:
            return _UNLOCKED
        return self._serial_calls.turn((call.template.tenant, tool.digest, tool.entry))

    # Running

    async def _run_in_box(self, call: PreparedCall, inputs: Inputs, listener: StreamListener | None) -> Outcome:
        """Lease a box and run the call in it. Retry only if the call did not start."""
        streams = listener is not None and listener.on_item is not None
        request = complete_request(call.template.request_head, call.spec, inputs, streams=streams)
        attempts = 0
        while True:
            is_plain = self._is_plain(call)
            try:
                async with self._pool.lease(*call.template.box(is_plain=is_plain)) as lease:
                    call.timing.boxed = now()
                    return await self._run_on_lease(lease, call, request, inputs, listener)
            except IsolationUnavailable:
                if is_plain or not call.template.accepts_plain:
                    raise
                self._lacks_namespaces = True
                continue
            except CallNotStarted as error:
                reason, remedy = error.message, error.remedy
            except ImageGone as error:
                # Something deleted the image of the box, so it must be built again.
                reason, remedy = str(error), None
                self._environments.forget_images()
                call = await self._equip(call)
            attempts += 1
            if attempts == _MAX_ATTEMPTS:
                message = f"the box died before the call started, {attempts} times: {reason}"
                raise CallNotStarted(message, remedy=remedy_of_shortage(reason) or remedy or CALL_AGAIN)

    def _is_plain(self, call: PreparedCall) -> bool:
        """Return whether the call gets a box without namespaces: the host lacks them, and the policy allows it."""
        return self._lacks_namespaces and call.template.accepts_plain

    async def _run_on_lease(
        self, lease: Lease, call: PreparedCall, request: bytes, inputs: Inputs, listener: StreamListener | None
    ) -> Outcome:
        pooled, template = lease.pooled, call.template
        if pooled.session.loss is not None:
            raise CallNotStarted(pooled.describe_loss())
        is_clean, budgets = False, call.budgets
        try:
            with closing(ArtifactWriter(self._settings.artifacts.shelf(call.spec.tenant), self.threads)) as writer:
                supervisor = CallSupervisor(
                    lease,
                    policy=template.policy,
                    threads=self.threads,
                    budgets=budgets,
                    listener=listener,
                    writer=writer,
                )
                result = await self._supervise(supervisor, lease, call, request, inputs)
                _refuse_unstarted(call, result, pooled)
                outcome = await build_outcome(call, result, lease, budgets=budgets, writer=writer)
            is_clean = outcome.status not in _UNCLEAN
        finally:
            if not is_clean:
                pooled.is_retired = True
        if is_clean:
            _learn(pooled, template, outcome)
        return outcome

    async def _supervise(
        self, supervisor: CallSupervisor, lease: Lease, call: PreparedCall, request: bytes, inputs: Inputs
    ) -> CallResult:
        template = call.template
        try:
            result = await supervisor.run(
                request,
                limits=template.lowered,
                value_limit=template.policy.limits.value + _REPLY_OVERHEAD,
                files=inputs.files,
            )
        except asyncio.CancelledError as cancelled:
            raise cancelled from _cut_short(call, supervisor.result(), lease)
        call.timing.ended = result.ended_at
        return result


def _learn(pooled: PooledBox, template: CallTemplate, outcome: Outcome) -> None:
    """Have the box import and compile ahead what further calls of the tool need."""
    if needed := (*template.preload, *_NEEDED_AFTER.get(outcome.status, ())):
        pooled.preload(needed)
    tool, usage = template.tool, outcome.usage
    took = usage.wall_s if usage.cpu_s is None else usage.cpu_s
    pooled.note_run(tool.text, filename=tool.filename, took_s=took)


def _cut_short(call: PreparedCall, result: CallResult, lease: Lease) -> CallCancelled | None:
    """Return the exception that carries the outcome of a cancelled call, or None if the call never began."""
    call.timing.ended = result.ended_at
    if not result.is_started:
        return None
    try:
        return CallCancelled("the call was cancelled", outcome=cancelled_outcome(call, result, lease))
    except SandboxError:
        return None


def _refuse_unstarted(call: PreparedCall, result: CallResult, pooled: PooledBox) -> None:
    """Raise for a call that no child ever had: the fault is its box's, even if the call's time passed."""
    if result.is_started:
        return
    fault = pooled.session.fault
    if fault is not None:
        raise missing_walls([fault.layer], policy=call.template.policy, reason=fault.reason)
    if result.end.kill_reason is None or result.end.was_lost:
        raise CallNotStarted(pooled.describe_loss())
