"""One call, from its spec to its outcome.

The engine knows all parts and does little itself: read the tool and bind its arguments (nothing runs if they do not
fit), tighten the policy, wait for a turn, borrow a box, send the call, watch it to its end, and put what was seen
together as an outcome. The user's failure is an outcome; what is raised here is ours.

Which limits shape the *box* (memory, processes, disk, processors) and which only the *call* (time, output, value) is
told apart once, in `box_policy`: calls that differ only in the latter share a warm box.

A call that never started because its box died is tried again, once, in a new box. A call that may have run never is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter as now
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from sandbox.backends.base import Backend, ImageGone
from sandbox.backends.hints import missing_walls, remedy_of_shortage
from sandbox.engine.environments import EnvironmentSupply, needs_of
from sandbox.engine.input_files import GivenFile
from sandbox.engine.inputs import Inputs, read_inputs
from sandbox.engine.outcomes import build_outcome, cancelled_outcome, invalid_outcome
from sandbox.engine.prepared_call import CallTemplate, CallTiming, PreparedCall, box_policy
from sandbox.engine.request import complete_request
from sandbox.engine.streams import StreamListener
from sandbox.engine.supervisor import CallSupervisor
from sandbox.engine.tool_terms import limits_for, policy_for
from sandbox.engine.verdict import CallEnd
from sandbox.environments import Environment, bare_environment
from sandbox.environments.progress import OnProgress, nobody
from sandbox.errors import CallNotStarted, EngineClosed, IsolationUnavailable, SandboxError, SpecError
from sandbox.outcome import Outcome, Status
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.tokens import Tokenizer
from sandbox.policy import Policy, load, tighten
from sandbox.pool.limiter import FairLimiter, KeyedLocks
from sandbox.pool.opener import CALL_AGAIN
from sandbox.pool.pool import Lease, Pool, PooledBox, PoolStatistics
from sandbox.spec import CallSpec, EnvironmentSpec
from sandbox.threads import Threads
from sandbox.tools import read_tool
from sandbox.tools.weighted_lru import WeightedLRU

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock
    from sandbox.environments.provider import Needs

Result = TypeVar("Result")

DEFAULT_CONCURRENCY: Final = 32
DEFAULT_WARM_MEMORY: Final = 2 << 30

_REPLY_OVERHEAD: Final = 1 << 16
_HEAVIEST_RECIPES: Final = 32 << 20
_ATTEMPTS: Final = 2
_AT_ONCE: Final = nullcontext()
_NEEDED_AFTER: Final = {Status.EXCEPTION: ("ast", "traceback")}
"""What other calls of a box will need as well, to show the lines of what they raise. Boxes whose calls never fail do
without: it is a quarter of their memory."""
_UNCLEAN: Final = frozenset({Status.TIMEOUT, Status.MEMORY, Status.LIMIT, Status.CRASHED, Status.CANCELLED})


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is made with."""

    concurrency: int = DEFAULT_CONCURRENCY
    """Calls that run at once; more wait for their turn."""
    warm_memory: int = DEFAULT_WARM_MEMORY
    """Bytes of memory that boxes kept warm may hold together."""
    store: Path | None = None
    """Where environments are kept; none: the user's own cache folder."""
    artifacts: ArtifactStore = field(default_factory=ArtifactStore)
    """Where what calls leave is kept."""
    tokenizer: Tokenizer | None = None
    """What counts the tokens of a text, for budgets in tokens."""
    is_offline: bool = False
    """No package index is asked, whatever policies allow."""
    on_progress: OnProgress = nobody
    """Told how the building of environments goes."""


class _UnderWay:
    """The time in which a task works for the engine."""

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
    """Runs calls; made on, and used from, one event loop."""

    def __init__(self, backend: Backend, settings: EngineSettings) -> None:
        self._backend = backend
        self._admission = FairLimiter(settings.concurrency)
        self._single_files = KeyedLocks()
        self._pool = Pool(backend, max_memory=settings.warm_memory)
        self.threads = Threads()
        self._policies: dict[str, Policy] = {}
        self._recipes: WeightedLRU[tuple[Hashable, ...], CallTemplate] = WeightedLRU(
            most=512, heaviest=_HEAVIEST_RECIPES
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
        self._lacks_walls = False

    @property
    def pool(self) -> Pool:
        """The warm boxes."""
        return self._pool

    async def run(self, spec: CallSpec, reader: StreamListener | None = None) -> Outcome:
        """One call; when the task that awaits it is cancelled, the call is killed and the cancellation goes on, with
        what came of the call until then as its `outcome`."""
        with self._under_way():
            call = self._read(spec)
            inputs = read_inputs(call.recipe.tool, spec, call.recipe.policy.limits)
            if inputs.problems:
                return invalid_outcome(call, inputs.problems)
            call = await self._equipped(call)
            call.clock.equipped = now()
            async with self._turn_of_its_tool(call), self._admission.turn(spec.tenant):
                call.clock.admitted = now()
                return await self._run_in_a_box(call, inputs, reader)

    def _turn_of_its_tool(self, call: PreparedCall) -> AbstractAsyncContextManager[object]:
        """Nothing to wait for, but for a tool whose calls are not to overlap."""
        tool = call.recipe.tool
        if tool.settings.enable_parallel_execution is not False:
            return _AT_ONCE
        return self._single_files.turn((call.recipe.tenant, tool.digest, tool.entry))

    async def prepare(self, spec: CallSpec) -> None:
        """Have the environment and a box for such calls ready; single-use ones as many as the policy keeps ahead."""
        with self._under_way():
            call = await self._equipped(self._read(spec))
            await self._as_walled_as_can_be(call, lambda: self._warm_up(call))

    async def lock(self, spec: EnvironmentSpec, *, refresh: bool = False) -> Lock:
        """What the requirements come to; asked of the indexes again with `refresh`."""
        with self._under_way():
            return await self._environments.lock(self._needs(spec), refresh=refresh)

    async def build(self, spec: EnvironmentSpec, *, lock: Lock | None = None) -> Environment:
        """Have the environment in the store: of the requirements, or of a lock that they came to before."""
        with self._under_way():
            return await self._environments.build(self._needs(spec), lock=lock)

    def _needs(self, spec: EnvironmentSpec) -> Needs:
        """What that asks for, with what the source of a tool asks for itself."""
        tool = read_tool(spec.source, filename=spec.filename) if spec.source is not None else None
        return needs_of(tool, spec, policy=self._granted(spec))

    async def _warm_up(self, call: PreparedCall) -> None:
        await self._pool.prepare(*call.recipe.box(is_plain=self._is_plain(call)))

    async def statistics(self) -> PoolStatistics:
        """What boxes there are now, and how calls came by theirs so far."""
        self._refuse_when_closed()
        return self._pool.statistics

    async def close(self) -> None:
        """End every call and close every box; nothing is left behind."""
        self._is_closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            if task not in self._cut_off:  # a second time would be taken for its own caller's
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
        """Known to `close` while it runs; a call that `close` cut off learns why."""
        self._refuse_when_closed()
        return _UnderWay(self._tasks, cut_off=self._cut_off, explain=self._refuse_when_closed)

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")

    def _read(self, spec: CallSpec) -> PreparedCall:
        clock = CallTiming()
        if self._settings.tokenizer is None and spec.counts_tokens:
            raise SpecError(
                "tokens: nothing here can count them", remedy="name what can: Sandbox(tokenizer=…), --tokenizer"
            )
        policy = spec.policy if isinstance(spec.policy, str) else id(spec.policy)  # which its recipe keeps alive
        limits = _plainly(spec.limits) if spec.limits else ()
        key = (spec.source, spec.filename, spec.entry, policy, spec.tenant, limits)
        recipe = None if limits is None else self._recipes.get(key)
        if recipe is None:
            recipe = self._new_recipe(spec)
            if limits is not None:
                self._recipes.put(key, recipe, weight=4 * len(recipe.tool.text))
        return PreparedCall(spec, recipe, clock)

    def _new_recipe(self, spec: CallSpec) -> CallTemplate:
        tool = read_tool(spec.source, filename=spec.filename, entry=spec.entry)
        granted = self._granted(spec)
        lowered = policy_for(tool, granted)
        policy = tighten(lowered, limits_for(tool, lowered, spec.limits))
        shaping = self._backend.tightened(box_policy(lowered, policy))
        return CallTemplate(tool, granted, policy, shaping, bare_environment(), spec.tenant, self._settings.tokenizer)

    async def _equipped(self, call: PreparedCall) -> PreparedCall:
        """The call with the environment that its tool requires."""
        recipe = call.recipe
        requires = recipe.tool.requirements or call.spec.requirements or recipe.tool.requires_python
        needs = needs_of(recipe.tool, call.spec, policy=recipe.policy) if requires else None
        environment = await self._environments.for_call(needs)
        same = environment is recipe.environment
        return call if same else PreparedCall(call.spec, recipe.within(environment), call.clock)

    def _granted(self, spec: CallSpec | EnvironmentSpec) -> Policy:
        """The policy as its operator wrote it, read once."""
        if isinstance(spec.policy, Policy):
            return spec.policy
        if spec.policy not in self._policies:
            self._policies[spec.policy] = load(spec.policy)
        return self._policies[spec.policy]

    async def _run_in_a_box(self, call: PreparedCall, inputs: Inputs, reader: StreamListener | None) -> Outcome:
        streams = reader is not None and reader.on_item is not None
        request = complete_request(call.recipe.request_head, call.spec, inputs, streams=streams)
        for _ in range(_ATTEMPTS):
            try:
                attempt = partial(self._try, call, request, inputs.files, reader)
                return await self._as_walled_as_can_be(call, attempt)
            except CallNotStarted as error:
                reason, remedy = error.message, error.remedy
            except ImageGone as error:
                reason, remedy = str(error), None
                call = await self._with_images_anew(call)
        message = f"the box died before the call started, {_ATTEMPTS} times: {reason}"
        raise CallNotStarted(message, remedy=remedy_of_shortage(reason) or remedy or CALL_AGAIN)

    async def _with_images_anew(self, call: PreparedCall) -> PreparedCall:
        """Somebody removed the image that its boxes were to be made from. To have it again is part of having a box."""
        self._environments.forget_images()
        return await self._equipped(call)

    async def _as_walled_as_can_be(self, call: PreparedCall, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Once more in the plain form, where this host turns out to lack walls and the call's policy accepts that."""
        was_plain = self._is_plain(call)
        try:
            return await attempt()
        except IsolationUnavailable:
            if was_plain or not call.recipe.accepts_plain:
                raise
            self._lacks_walls = True  # which another call may have found out meanwhile
            return await attempt()

    def _lend(self, call: PreparedCall) -> AbstractAsyncContextManager[Lease]:
        """A box for it."""
        return self._pool.lease(*call.recipe.box(is_plain=self._is_plain(call)))

    def _is_plain(self, call: PreparedCall) -> bool:
        """Only where this host was found to lack walls and the call's policy accepts that."""
        return self._lacks_walls and call.recipe.accepts_plain

    async def _try(
        self, call: PreparedCall, request: bytes, files: Sequence[GivenFile], reader: StreamListener | None
    ) -> Outcome:
        async with self._lend(call) as lease:
            call.clock.boxed = now()
            is_clean = False
            try:
                outcome = await self._run_in(lease, call, request, files, reader)
                is_clean = outcome.status not in _UNCLEAN
            finally:
                if not is_clean:
                    lease.pooled.is_retired = True
            if is_clean:
                if needed := (*call.recipe.preload, *_NEEDED_AFTER.get(outcome.status, ())):
                    lease.pooled.preload(needed)
                tool, usage = call.recipe.tool, outcome.usage
                took = usage.wall_s if usage.cpu_s is None else usage.cpu_s
                lease.pooled.note_run(tool.text, filename=tool.filename, took_s=took)
            return outcome

    async def _run_in(
        self,
        lease: Lease,
        call: PreparedCall,
        request: bytes,
        files: Sequence[GivenFile],
        reader: StreamListener | None,
    ) -> Outcome:
        if lease.pooled.session.loss is not None:
            raise CallNotStarted(_last_seen(lease.pooled))
        policy = call.recipe.policy
        threads, budgets = self.threads, call.budgets
        with closing(ArtifactWriter(self._settings.artifacts.shelf(call.spec.tenant), threads)) as keeping:
            watcher = CallSupervisor(
                lease.pooled, policy=policy, threads=threads, budgets=budgets, reader=reader, keeping=keeping
            )
            value_limit = policy.limits.value + _REPLY_OVERHEAD
            lease.call = watcher.start(request, limits=call.recipe.lowered, value_limit=value_limit, files=files)
            try:
                ending = await watcher.watch()
            except asyncio.CancelledError as cancelled:
                call.clock.ended = now()
                _tell_what_came_of_it(cancelled, lease, call, watcher)
                raise
            call.clock.ended = now()
            _refuse_without_start(lease, call, watcher, ending)
            return await build_outcome(lease, call, watcher, ending)


def _plainly(limits: Mapping[str, object]) -> tuple[Hashable, ...] | None:
    """Limits as what recipes are known by; None where some are not of the kinds that limits are."""
    is_plain = all(type(value) in (int, float, str) for value in limits.values())  # `True` equals 1, and is refused
    return tuple((name, type(value), value) for name, value in limits.items()) if is_plain else None


def _tell_what_came_of_it(
    cancelled: asyncio.CancelledError, lease: Lease, call: PreparedCall, watcher: CallSupervisor
) -> None:
    """The caller gets no outcome, but can ask the error that it gets instead. A call that never began has none."""
    if watcher.call.is_started:
        with suppress(SandboxError):
            vars(cancelled)["outcome"] = cancelled_outcome(lease, call, watcher)


def _refuse_without_start(lease: Lease, call: PreparedCall, watcher: CallSupervisor, ending: CallEnd) -> None:
    """A call that no child ever had has no outcome: what was wrong, also where its time passed, was its box."""
    if watcher.call.is_started:
        return
    fault = lease.pooled.session.fault
    if fault is not None:
        raise missing_walls([fault.layer], policy=call.recipe.policy, reason=fault.reason)
    if ending.stopped_for is None or ending.was_lost:
        raise CallNotStarted(_last_seen(lease.pooled))


def _last_seen(pooled: PooledBox) -> str:
    """Why a box, or its child for a call, is gone, with what its runner last wrote."""
    reason, said = pooled.session.loss or "the process that waited for the call died", pooled.box.last_words()
    return f"{reason}; its runner said: {said[-500:]}" if said else str(reason)
