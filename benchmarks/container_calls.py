"""A call in a container against `docker run` of the same image: warm, single use, and cold.

*Warm*: the container had calls before, and forks a child for this call, ahead or on demand; a second floor is the bare
fork and pipe. *Single use*: a container that was opened ahead and never had a call, from the claim to the outcome,
under runc and, if the daemon has it, gVisor, against `docker run` under the same runtime. Only calls that found a ready
container count. *Cold*: the image exists and no container does; the engine either runs already or is new as well.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.calls import SOURCE, AheadOnly, call, on_demand_policy
from benchmarks.container_floors import BY_REQUESTS, DOCKER_RUN, Daemon, by_requests, docker_run, open_daemon
from benchmarks.floors import BARE_FORK, open_floor
from benchmarks.report import Report, at_most, build_report, merge, ratio, spread
from benchmarks.turns import Case, take_turns
from sandbox import AsyncSandbox, Policy
from sandbox.backends.container.backend import ContainerBackend
from sandbox.policy import Strength, load

_AHEAD: Final = "warm container, forked ahead"
_ON_DEMAND: Final = "warm container, forked on demand"
_NEW_BOX: Final = "cold, new container of a running engine"
_NEW_ENGINE: Final = "cold, first container of a new engine"
_RUNC, _GVISOR = "runc", "runsc"
_PAUSE_S: Final = 0.03
_DOCKER_EVERY: Final = 8
_SETTLING_S: Final = 0.3
_STEP_S: Final = 0.02
_LONGEST_S: Final = 60.0


def measure(*, is_quick: bool) -> Report:
    """Measure calls in containers."""
    with open_daemon() as daemon:
        return asyncio.run(_measure(daemon, is_quick=is_quick))


async def _measure(daemon: Daemon, *, is_quick: bool) -> Report:
    parts = [await _warm(daemon, rounds=3 if is_quick else 120)]
    runtimes = [runtime for runtime in (_RUNC, _GVISOR) if runtime in daemon.runtimes]
    parts += [await _single_use(daemon, runtime, rounds=1 if is_quick else 20) for runtime in runtimes]
    parts.append(await _cold(daemon, rounds=1 if is_quick else 15))
    return merge("container_calls", parts)


async def _warm(daemon: Daemon, *, rounds: int) -> Report:
    async with AsyncExitStack() as stack:
        fork = stack.enter_context(open_floor("fork"))
        warm = await stack.enter_async_context(AsyncSandbox(backend="container"))
        unforked = await stack.enter_async_context(AsyncSandbox(backend="container", policy=on_demand_policy()))
        ahead = AheadOnly(lambda: call(warm))
        cases: dict[str, Case] = {_AHEAD: ahead.measure, _ON_DEMAND: lambda: _time_call(unforked)}
        floors = {BARE_FORK: fork.measure_in_turn, DOCKER_RUN: _run_rarely(docker_run(daemon))}
        found = await take_turns({**cases, **floors}, rounds=rounds, pause_s=_PAUSE_S)
    case = {name: spread(found[name]) for name in cases}
    floor = {name: spread(found[name]) for name in floors}
    return build_report(
        "warm",
        cases=case,
        floors=floor,
        goals=[
            at_most(f"{_AHEAD} / {BARE_FORK}", ratio(case[_AHEAD], floor[BARE_FORK]), 1.5),
            at_most(f"{_ON_DEMAND} / {BARE_FORK}", ratio(case[_ON_DEMAND], floor[BARE_FORK]), 5.0),
            at_most(f"{_AHEAD} / {DOCKER_RUN}", ratio(case[_AHEAD], floor[DOCKER_RUN]), 1 / 50),
        ],
        notes={"daemon": daemon.whose, "image": daemon.image, "share_found_ahead": ahead.share},
    )


async def _time_call(sandbox: AsyncSandbox) -> float:
    return (await call(sandbox)).milliseconds


def _run_rarely(case: Case) -> Case:
    """Run a slow case only in some rounds, so that it does not dominate the time."""
    turn = 0

    async def measure() -> float | None:
        nonlocal turn
        turn += 1
        return await case() if turn % _DOCKER_EVERY == 0 else None

    return measure


async def _single_use(daemon: Daemon, runtime: str, *, rounds: int) -> Report:
    name, floor_name = f"single use under {runtime}, pooled", f"{DOCKER_RUN} under {runtime}"
    async with AsyncSandbox(backend=ContainerBackend(runtime=runtime), policy=single_use_policy()) as sandbox:
        await sandbox.prepare(SOURCE)

        async def pooled() -> float | None:
            await _wait_refilled(sandbox)
            timed = await call(sandbox)
            return timed.milliseconds if timed.path == "pooled" else None

        cases = {name: pooled, floor_name: _run_refilled(sandbox, docker_run(daemon, runtime))}
        found = await take_turns(cases, rounds=rounds, warm_up_rounds=1)
    case, floor = spread(found[name]), spread(found[floor_name])
    goal = at_most(f"{name} / {floor_name}", ratio(case, floor), 1 / 20)
    return build_report(name, cases={name: case}, floors={floor_name: floor}, goals=[goal])


def single_use_policy(*, ahead: int | None = None) -> Policy:
    """Return the policy 'strict' without its preference for a stronger runtime than the named one."""
    policy = load("strict")
    reuse = policy.reuse if ahead is None else policy.reuse.model_copy(update={"ahead": ahead})
    isolation = policy.isolation.model_copy(update={"prefer": Strength.CONTAINER})
    return policy.model_copy(update={"reuse": reuse, "isolation": isolation})


def _run_refilled(sandbox: AsyncSandbox, case: Case) -> Case:
    """Wait, so that no floor shares the machine with boxes that the case before it opens and closes."""

    async def measure() -> float | None:
        await _wait_refilled(sandbox)
        return await case()

    return measure


async def _wait_refilled(sandbox: AsyncSandbox) -> None:
    """Wait until the engine has refilled its ready boxes, plus a moment for boxes that close."""
    wanted = single_use_policy().reuse.ahead
    for _ in range(round(_LONGEST_S / _STEP_S)):
        if (await sandbox.statistics()).ready >= wanted:
            break
        await asyncio.sleep(_STEP_S)
    await asyncio.sleep(_SETTLING_S)


async def _cold(daemon: Daemon, *, rounds: int) -> Report:
    async with AsyncSandbox(backend="container", policy=single_use_policy(ahead=0)) as sandbox:
        cases: dict[str, Case] = {_NEW_BOX: lambda: _time_call(sandbox), _NEW_ENGINE: _time_new_engine}
        floors: dict[str, Case] = {DOCKER_RUN: docker_run(daemon), BY_REQUESTS: by_requests(daemon)}
        found = await take_turns({**cases, **floors}, rounds=rounds, pause_s=_SETTLING_S, warm_up_rounds=1)
    case = {name: spread(found[name]) for name in cases}
    floor = {f"cold: {name}": spread(found[name]) for name in floors}
    run = floor[f"cold: {DOCKER_RUN}"]
    goals = [at_most(f"{name} / {DOCKER_RUN}", ratio(case[name], run), 1.35) for name in cases]
    return build_report("cold", cases=case, floors=floor, goals=goals)


async def _time_new_engine() -> float:
    """Time the first call of a new engine in a container of the default policy, without the engine's close."""
    begun = perf_counter()
    async with AsyncSandbox(backend="container") as sandbox:
        await call(sandbox)
        return (perf_counter() - begun) * 1000


if __name__ == "__main__":
    run_alone(measure)
