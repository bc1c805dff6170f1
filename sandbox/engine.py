"""One call, from its spec to its outcome.

The engine knows all parts and does little itself: read the tool and bind its arguments (nothing runs if they do not
fit), tighten the policy, wait for a turn, borrow a box, send the call, watch it to its end, and put what was seen
together as an outcome. The user's failure is an outcome; what is raised here is ours.

Which limits shape the *box* (memory, processes, disk, processors) and which only the *call* (time, output, value) is
told apart once, in `_BOX_LIMITS`: calls that differ only in the latter share a warm box.

A call that never started because its box died is tried again, once, in a new box. A call that may have run never is.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from weakref import WeakSet

from sandbox.admission import Admission
from sandbox.backends.base import Backend, BoxPlan
from sandbox.backends.remedies import missing_walls
from sandbox.calls.receipts import build_receipt, is_at_least, read_walls
from sandbox.calls.replies import aside_when_large
from sandbox.calls.request import box_environment, build_request, lowered_limits, preloadable
from sandbox.calls.verdict import Ending, Verdict, judge
from sandbox.calls.watching import OnOutput, Watcher
from sandbox.environments import Environment, bare_environment
from sandbox.errors import BoxLost, EngineClosed, EnvironmentUnavailable, IsolationUnavailable
from sandbox.outcome import EnvironmentUsed, Failure, Outcome, Problem, Receipt, Shaped, Status, Timing, ToolName, Usage
from sandbox.outputs.shaping import STDERR_TYPE, STDOUT_TYPE, nothing, shape_value
from sandbox.policy import Limits, Policy, Strength, load, tighten
from sandbox.pool import BoxKey, Loan, Pool, WarmBox
from sandbox.spec import CallSpec
from sandbox.tools import Binding, Tool, bind, read_tool
from sandbox.wire.messages import Returned

Result = TypeVar("Result")

DEFAULT_CONCURRENCY: Final = 32
DEFAULT_WARM_MEMORY: Final = 2 << 30

_BOX_LIMITS: Final = ("memory", "processes", "disk", "inodes", "cpus")
_REPLY_OVERHEAD: Final = 1 << 16
_ATTEMPTS: Final = 2
_MOST_RECEIPTS: Final = 64
_UNCLEAN: Final = frozenset({Status.TIMEOUT, Status.MEMORY, Status.LIMIT, Status.CRASHED, Status.CANCELLED})


@dataclass(frozen=True, slots=True)
class Settings:
    """What an engine is made with."""

    concurrency: int = DEFAULT_CONCURRENCY
    """Calls that run at once; more wait for their turn."""
    warm_memory: int = DEFAULT_WARM_MEMORY
    """Bytes of memory that boxes kept warm may hold together."""


@dataclass(slots=True)
class _Clock:
    """Where a call's time goes."""

    begun: float = field(default_factory=time.perf_counter)
    _marks: dict[str, float] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        self._marks[name] = time.perf_counter()

    def milliseconds(self, since: str | None, until: str) -> float:
        """Between two marks, the first being the beginning when it is None."""
        start = self.begun if since is None else self._marks[since]
        return round((self._marks[until] - start) * 1000, 3)


@dataclass(frozen=True, slots=True)
class _Call:
    """A spec with everything that is found out about it before a box is needed."""

    spec: CallSpec
    tool: Tool
    policy: Policy
    box_policy: Policy
    environment: Environment
    clock: _Clock

    def key(self, *, is_plain: bool) -> BoxKey:
        return BoxKey(self.environment.key, self.box_policy.digest, self.spec.tenant, is_plain)

    def plan(self, *, is_plain: bool) -> BoxPlan:
        preload = preloadable(self.tool)
        variables = box_environment(self.box_policy)
        return BoxPlan(self.box_policy, self.environment, preload=preload, environment=variables, is_plain=is_plain)

    @property
    def accepts_plain(self) -> bool:
        """Whether limits and filters alone will do."""
        isolation = self.box_policy.isolation
        return isolation.minimum is Strength.PLAIN and not any("namespace" in layer for layer in isolation.require)


class _NeverStarted(Exception):
    """The box, or the child in it, died while the call was still on its way."""


class Engine:
    """Runs calls; made on, and used from, one event loop."""

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self._backend = backend
        self._admission = Admission(settings.concurrency)
        self._pool = Pool(backend, most_memory=settings.warm_memory)
        self._policies: dict[str, Policy] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut_off: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._is_closed = False
        self._lacks_walls = False

    @property
    def pool(self) -> Pool:
        """The warm boxes."""
        return self._pool

    async def run(self, spec: CallSpec, on_output: OnOutput | None = None) -> Outcome:
        """One call; when the task that awaits it is cancelled, the call is killed and the cancellation goes on."""
        with self._under_way():
            call = self._read(spec)
            binding = bind(call.tool, spec.args)
            problems = _problems(binding, call.policy.limits)
            if problems:
                return _invalid(call, problems)
            async with self._admission.turn(spec.tenant):
                call.clock.mark("admitted")
                return await self._run_in_a_box(call, binding.arguments, on_output)

    async def prepare(self, spec: CallSpec) -> None:
        """Have the environment and a warm box for such calls ready."""
        with self._under_way():
            call = self._read(spec)
            await self._as_walled_as_can_be(call, lambda: self._warm_up(call))

    async def _warm_up(self, call: _Call) -> None:
        async with self._lend(call) as loan:
            loan.warm.preload(preloadable(call.tool))

    async def close(self) -> None:
        """End every call and close every box; nothing is left behind."""
        self._is_closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            self._cut_off.add(task)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pool.close()
        await self._backend.close()

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Known to `close` while it runs; a call that `close` cut off learns why."""
        self._refuse_when_closed()
        task = asyncio.current_task()
        assert task is not None
        is_outermost = task not in self._tasks
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if is_outermost and task.cancelling() == 1 and task in self._cut_off:
                task.uncancel()
                self._refuse_when_closed()
            raise
        finally:
            if is_outermost:
                self._tasks.discard(task)

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")

    def _read(self, spec: CallSpec) -> _Call:
        clock = _Clock()
        tool = read_tool(spec.source, filename=spec.filename, entry=spec.entry)
        granted = self._granted(spec)
        policy = tighten(granted, spec.limits)
        return _Call(spec, tool, policy, _box_policy(granted, policy), _environment(tool), clock)

    def _granted(self, spec: CallSpec) -> Policy:
        """The policy as its operator wrote it, read once."""
        if isinstance(spec.policy, Policy):
            return spec.policy
        if spec.policy not in self._policies:
            self._policies[spec.policy] = load(spec.policy)
        return self._policies[spec.policy]

    async def _run_in_a_box(self, call: _Call, arguments: Mapping[str, object], on_output: OnOutput | None) -> Outcome:
        request = build_request(call.spec, call.tool, arguments, call.policy)
        for _ in range(_ATTEMPTS):
            try:
                return await self._as_walled_as_can_be(call, lambda: self._try(call, request, on_output))
            except _NeverStarted as error:
                reason = str(error)
        raise BoxLost(f"the box died before the call started, {_ATTEMPTS} times: {reason}")

    async def _as_walled_as_can_be(self, call: _Call, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Once more in the plain form, where this host turns out to lack walls and the call's policy accepts that."""
        try:
            return await attempt()
        except IsolationUnavailable:
            if not call.accepts_plain or self._lacks_walls:
                raise
            self._lacks_walls = True
            return await attempt()

    def _lend(self, call: _Call) -> AbstractAsyncContextManager[Loan]:
        """A box; plain only where this host was found to lack walls and the call's policy accepts that."""
        is_plain = self._lacks_walls and call.accepts_plain
        return self._pool.lend(call.key(is_plain=is_plain), call.plan(is_plain=is_plain))

    async def _try(self, call: _Call, request: bytes, on_output: OnOutput | None) -> Outcome:
        async with self._lend(call) as loan:
            call.clock.mark("boxed")
            is_clean = False
            try:
                outcome = await _run_in(loan, call, request, on_output)
                is_clean = outcome.status not in _UNCLEAN
            finally:
                if not is_clean:
                    loan.warm.is_retired = True
            if is_clean:
                loan.warm.preload(preloadable(call.tool))
            return outcome


async def _run_in(loan: Loan, call: _Call, request: bytes, on_output: OnOutput | None) -> Outcome:
    if loan.warm.conversation.loss is not None:
        raise _NeverStarted(_last_seen(loan.warm))
    watcher = Watcher(loan.warm, policy=call.policy, on_output=on_output)
    loan.call = watcher.start(
        request,
        limits=lowered_limits(call.policy, call.box_policy),
        value_limit=call.policy.limits.value + _REPLY_OVERHEAD,
    )
    ending = await watcher.watch()
    call.clock.mark("ended")
    fault = loan.warm.conversation.fault
    if fault is not None and watcher.call.started is None:
        raise missing_walls([fault.layer], policy=call.policy, reason=fault.reason)
    if watcher.call.started is None and ending.stopped_for is None:
        raise _NeverStarted(_last_seen(loan.warm))
    verdict = judge(ending)
    size = len(ending.value)
    shaped_value = await aside_when_large(lambda: _shaped_value(verdict, call.policy.output.shown), size=size)
    return _outcome(loan, call, watcher, ending, verdict=verdict, shaped_value=shaped_value)


def _last_seen(warm: WarmBox) -> str:
    """Why a box, or its child for a call, is gone, with what its runner last wrote."""
    reason, said = warm.conversation.loss or "the process that waited for the call died", warm.box.last_words()
    return f"{reason}; its runner said: {said[-500:]}" if said else str(reason)


def _box_policy(granted: Policy, policy: Policy) -> Policy:
    """The granted policy, lowered only where that shapes the box."""
    if policy is granted:
        return granted
    lowered = {name: getattr(policy.limits, name) for name in _BOX_LIMITS}
    if all(getattr(granted.limits, name) == value for name, value in lowered.items()):
        return granted
    return granted.model_copy(update={"limits": granted.limits.model_copy(update=lowered)})


def _environment(tool: Tool) -> Environment:
    if tool.requirements:
        raise EnvironmentUnavailable(
            f"tool '{tool.name}' requires {', '.join(tool.requirements)[:200]}; only the standard library is available",
            remedy="remove the requirements from its `# /// script` block, or use what Python ships",
        )
    return bare_environment()


def _problems(binding: Binding, limits: Limits) -> list[Problem]:
    """What is wrong with the arguments, all of it."""
    found = [
        Problem(path=each.path, message=each.message, expected=each.expected, got=each.got) for each in binding.problems
    ]
    size = 0 if found else len(json.dumps(binding.arguments, separators=(",", ":")))
    if size > limits.arguments:
        message = f"the arguments are {size} bytes as JSON; the policy allows {limits.arguments}"
        found.append(Problem(path="", message=message))
    return found


def _invalid(call: _Call, problems: list[Problem]) -> Outcome:
    """The arguments do not fit: nothing ran, and the reasons are made for a model to read."""
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in problems]
    call.clock.mark("ended")
    total = call.clock.milliseconds(None, "ended")
    return Outcome(
        status=Status.INVALID,
        error=Failure(type="InvalidArguments", message="; ".join(lines)[:4000]),
        problems=tuple(problems),
        stdout=nothing(STDOUT_TYPE),
        stderr=nothing(STDERR_TYPE),
        shaped_value=nothing("json_data"),
        usage=Usage(wall_s=0.0),
        tool=ToolName(name=call.tool.name),
        timing=Timing(queue_ms=0, environment_ms=0, box_ms=0, run_ms=0, total_ms=total, path="cold"),
        call_id=call.spec.call_id,
        trace_id=call.spec.trace_id,
    )


def _outcome(
    loan: Loan, call: _Call, watcher: Watcher, ending: Ending, *, verdict: Verdict, shaped_value: Shaped
) -> Outcome:
    """Everything that was seen, as one document."""
    is_walled = bool(watcher.call.walls) or _must_be_walled(ending)
    receipt = _receipt(loan.warm, call, bytes(watcher.call.walls)) if is_walled else None
    shown = call.policy.output.shown
    return Outcome(
        status=verdict.status,
        value=verdict.value,
        error=verdict.error,
        stdout=watcher.stdout.shape(STDOUT_TYPE, budget=shown),
        stderr=watcher.stderr.shape(STDERR_TYPE, budget=shown),
        shaped_value=shaped_value,
        usage=_usage(ending, watcher.call.returned),
        limit_name=verdict.limit_name,
        evidence=verdict.evidence,
        warnings=verdict.warnings,
        receipt=receipt,
        environment=EnvironmentUsed(key=call.environment.key, lock_digest=call.environment.lock_digest),
        tool=ToolName(name=call.tool.name),
        timing=_timing(loan, call, watcher),
        call_id=call.spec.call_id,
        trace_id=call.spec.trace_id,
    )


def _receipt(warm: WarmBox, call: _Call, walls: bytes) -> Receipt:
    """What protected the host; raises `IsolationUnavailable` when that is less than the policy accepts."""
    known = (walls, call.policy.name, call.policy.digest)
    if known in warm.receipts:
        return warm.receipts[known]
    receipt = build_receipt(
        warm.box.protection,
        read_walls(walls, policy=call.box_policy),
        policy=call.policy,
        environment_key=call.environment.key,
        limits=call.policy.limits.model_dump(),
    )
    if not is_at_least(receipt, call.policy.isolation.minimum):
        raise IsolationUnavailable(f"the box was {receipt.isolation}, weaker than policy '{call.policy.name}' accepts")
    if len(warm.receipts) < _MOST_RECEIPTS:
        warm.receipts[known] = receipt
    return receipt


def _must_be_walled(ending: Ending) -> bool:
    """Whether the tool can have run: a call that ended by itself has described its walls before."""
    return bool(ending.value) or (ending.ended.exit_code is not None and ending.ended.killed_by is None)


def _shaped_value(verdict: Verdict, shown: int) -> Shaped:
    return shape_value(verdict.value, budget=shown) if verdict.status is Status.OK else nothing("json_data")


def _usage(ending: Ending, returned: Returned | None) -> Usage:
    """What it cost, from outside; what its child had used before the call came is not the call's."""
    cpu = ending.ended.cpu_s if ending.reading.cpu_s is None else ending.reading.cpu_s
    before = 0.0 if returned is None else returned.cpu_before
    peak = ending.reading.memory_peak_bytes
    return Usage(
        wall_s=round(ending.wall_s, 6),
        cpu_s=None if cpu is None else round(max(cpu - before, 0.0), 6),
        memory_peak_bytes=ending.ended.max_rss if peak is None else peak,
        processes_peak=ending.reading.processes_peak,
    )


def _timing(loan: Loan, call: _Call, watcher: Watcher) -> Timing:
    clock, started = call.clock, watcher.call.started
    clock.mark("done")
    return Timing(
        queue_ms=clock.milliseconds(None, "admitted"),
        environment_ms=0.0,
        box_ms=clock.milliseconds("admitted", "boxed"),
        run_ms=clock.milliseconds("boxed", "ended"),
        total_ms=clock.milliseconds(None, "done"),
        path=loan.path,
        ahead=started is not None and started.ahead,
        preloaded=loan.warm.preloaded,
    )
