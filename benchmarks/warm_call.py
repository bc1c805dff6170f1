"""A call in a warm box, against a bare fork and a fresh interpreter.

The child is forked *ahead* of the call (through the async facade, through the sync facade, and for a source as long as
real tools have), or *on demand*; all have the full isolation of the default policy. A pause before every measurement
keeps the load below saturation, so that the zygote has refilled; only calls that found a child count as ahead, and the
report notes their share. The benchmark also measures a tool that imports a requirement, in a box whose template has
imported it. A call on demand finds a half-started child after a pause, whose guard has set up the isolation; directly
after another call no such child exists, and the call waits for the whole set-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.calls import (
    LONG_SOURCE,
    SOURCE,
    AheadOnly,
    TimedCall,
    call,
    call_after_another,
    call_and_wait,
    on_demand_policy,
)
from benchmarks.environment_stores import build, temporary_folder
from benchmarks.floors import (
    BARE_FORK,
    FRESH_PYTHON,
    MUTE_FORK,
    WAITING_CHILD,
    WALLED_FORK,
    WALLED_FORKS,
    open_floor,
)
from benchmarks.report import Report, at_most, build_report, ratio, spread
from benchmarks.turns import take_turns
from sandbox import AsyncSandbox, Sandbox

_AHEAD: Final = "forked ahead"
_AHEAD_LONG: Final = "forked ahead, a tool of 200 lines"
_AHEAD_SYNC: Final = "forked ahead, without an event loop"
_ON_DEMAND: Final = "forked on demand"
_NONE_VACANT: Final = "forked on demand, right after another call"
_AHEAD_PACKAGES: Final = "with a requirement, forked ahead"
_ON_DEMAND_PACKAGES: Final = "with a requirement, forked on demand"
_REQUIREMENTS: Final = ("six",)
_IMPORTING: Final = f"import six\n{SOURCE}"
_PAUSE_S: Final = 0.02


def measure(*, is_quick: bool) -> Report:
    """Measure warm calls."""
    return asyncio.run(_measure(rounds=3 if is_quick else 150))


async def _measure(*, rounds: int) -> Report:
    async with AsyncExitStack() as stack:
        fork, mute, spawn = (stack.enter_context(open_floor(kind)) for kind in ("fork", "mute", "spawn"))
        waiting, walled, guarded = (stack.enter_context(open_floor(kind)) for kind in ("waiting", "walled", "guarded"))
        warm = await stack.enter_async_context(AsyncSandbox())
        unforked = await stack.enter_async_context(AsyncSandbox(policy=on_demand_policy()))
        facade = stack.enter_context(Sandbox())
        store = stack.enter_context(temporary_folder())
        await build(store, _REQUIREMENTS)
        importing = await stack.enter_async_context(AsyncSandbox(store=store))
        importing_unforked = await stack.enter_async_context(AsyncSandbox(store=store, policy=on_demand_policy()))
        ahead = {
            _AHEAD_PACKAGES: AheadOnly(lambda: call(importing, _IMPORTING, _REQUIREMENTS)),
            _AHEAD: AheadOnly(lambda: call(warm)),
            _AHEAD_LONG: AheadOnly(lambda: call(warm, LONG_SOURCE)),
            _AHEAD_SYNC: AheadOnly(lambda: _call_blocking(facade)),
        }
        cases = {name: case.measure for name, case in ahead.items()} | {
            _ON_DEMAND: lambda: _require_on_demand(call(unforked)),
            _NONE_VACANT: lambda: _require_on_demand(call_after_another(unforked)),
            _ON_DEMAND_PACKAGES: lambda: _require_on_demand(call(importing_unforked, _IMPORTING, _REQUIREMENTS)),
        }
        floors = {
            BARE_FORK: fork.measure_in_turn,
            MUTE_FORK: mute.measure_in_turn,
            FRESH_PYTHON: spawn.measure_in_turn,
            WAITING_CHILD: waiting.measure_in_turn,
            WALLED_FORK: walled.measure_in_turn,
            WALLED_FORKS: guarded.measure_in_turn,
        }
        found = await take_turns({**cases, **floors}, rounds=rounds, pause_s=_PAUSE_S)
    shares = {name: case.share for name, case in ahead.items()}
    return _build_report({name: found[name] for name in cases}, {name: found[name] for name in floors}, shares)


async def _call_blocking(sandbox: Sandbox) -> TimedCall:
    """Block this process's event loop meanwhile, as if it did not exist."""
    return call_and_wait(sandbox)


async def _require_on_demand(made: Awaitable[TimedCall]) -> float:
    timed = await made
    assert not timed.was_ahead
    return timed.milliseconds


def _build_report(cases: dict[str, list[float]], floors: dict[str, list[float]], shares: dict[str, float]) -> Report:
    case = {name: spread(values) for name, values in cases.items()}
    floor = {name: spread(values) for name, values in floors.items()}
    return build_report(
        "warm_call",
        cases=case,
        floors=floor,
        ratios={
            f"{each} / {BARE_FORK}": ratio(floor[each], floor[BARE_FORK])
            for each in (MUTE_FORK, WAITING_CHILD, WALLED_FORK, WALLED_FORKS)
        },
        goals=[
            at_most(f"{_AHEAD} / {BARE_FORK}", ratio(case[_AHEAD], floor[BARE_FORK]), 1.0),
            at_most(f"{_ON_DEMAND} / {BARE_FORK}", ratio(case[_ON_DEMAND], floor[BARE_FORK]), 4.0),
            at_most(f"{_ON_DEMAND} / {FRESH_PYTHON}", ratio(case[_ON_DEMAND], floor[FRESH_PYTHON]), 0.35),
            at_most(f"{_AHEAD_PACKAGES} / {BARE_FORK}", ratio(case[_AHEAD_PACKAGES], floor[BARE_FORK]), 1.0),
            at_most(f"{_ON_DEMAND_PACKAGES} / {BARE_FORK}", ratio(case[_ON_DEMAND_PACKAGES], floor[BARE_FORK]), 5.5),
        ],
        notes={"share_found_ahead": dict(shares), "pause_ms": _PAUSE_S * 1000},
    )


if __name__ == "__main__":
    run_alone(measure)
