"""The duration of a build, against `uv` alone.

*Trees in the store*: another environment of packages that the store has had before, against uv with a warm cache, which
is the same situation. *Wheels in the store*: the engine first unpacks, compiles and verifies them, against uv that
unpacks the same wheels with an empty cache. *Cold*: an empty store against an empty cache, once for a lock, so that
both sides download and install, and once for requirements, which both sides resolve first.

uv neither compiles nor verifies, so the benchmark measures compiling and verifying apart, and the goals exclude both.
The box of a build first unpacks everything as it arrives from the index, then compiles it, and reports how long
compiling took; uv's cache removes the second names of its files meanwhile. All other time of the box counts as
unpacking, from the moment when the engine knows the packages; the box opens earlier. Verifying covers everything after
the box, until the trees are in the store; meanwhile the engine links trees that exist already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.bare_uv import BareUv
from benchmarks.environment_stores import build, set_aside, temporary_folder
from benchmarks.report import Report, Spread, at_most, build_report, ratio, spread
from benchmarks.turns import take_turns
from sandbox import AsyncSandbox
from sandbox.backends import open_backend
from sandbox.engine.build_jobs import BoxJobRunner
from sandbox.engine.engine import DEFAULT_WARM_MEMORY
from sandbox.environments.build_jobs import Job, JobEnd, JobRunner
from sandbox.environments.lock import Lock
from sandbox.environments.progress import Progress
from sandbox.environments.provider import Needs, Provider
from sandbox.policy import load
from sandbox.pool.pool import Pool
from sandbox.threads import Threads

_TREES: Final = "trees in the store"
_WHEELS: Final = "wheels in the store"
_LOCKED: Final = "cold, of a lock"
_COLD: Final = "cold"
_APART: Final = ", without compiling and verifying"
_UV_WARM: Final = "uv, warm cache"
_UV_WHEELS: Final = "uv, unpacking wheels"
_UV_LOCKED: Final = "uv, cold, of the same lock"
_UV_COLD: Final = "uv, cold"
_UV_IN_STEPS: Final = "uv, cold, resolved to a lock first"
_UV_COMPILING: Final = "uv, cold, --compile-bytecode"
_UNPACK: Final = "unpack"


@dataclass(frozen=True, slots=True)
class _Extent:
    requirements: tuple[str, ...]
    warm_rounds: int
    rounds: int


@dataclass(frozen=True, slots=True)
class BuildTimes:
    """Milliseconds of a build, and of its parts."""

    total: float
    resolving: float
    unpacking: float
    compiling: float
    verifying: float

    @property
    def apart(self) -> float:
        """Return the time without the work that uv does not do."""
        return self.total - self.compiling - self.verifying


class _Stopwatch:
    """A workshop between a provider and the real one, which listens to the progress of builds."""

    def __init__(self, workshop: JobRunner) -> None:
        self._workshop = workshop
        self._begun = perf_counter()
        self._stages: dict[str, float] = {}
        self._resolving_ms = 0.0
        self._resolved_at = self._unpacked_at = 0.0
        self._unpacking_ms = 0.0
        self._compiling_ms = 0.0

    def tell(self, progress: Progress) -> None:
        self._stages.setdefault(progress.stage, perf_counter())

    async def run(self, job: Job) -> JobEnd:
        begun = perf_counter()
        end = await self._workshop.run(job)
        ended = perf_counter()
        if job.program != _UNPACK:
            self._resolved_at = ended
            self._resolving_ms += (ended - begun) * 1000
        elif isinstance(end.value, dict):
            self._unpacked_at = ended
            self._unpacking_ms = (ended - max(begun, self._resolved_at)) * 1000
            self._compiling_ms = float(str(end.value.get("compile_s", 0))) * 1000
        return end

    def stop(self) -> BuildTimes:
        total = (perf_counter() - self._begun) * 1000
        unpacking = self._unpacking_ms - self._compiling_ms
        verifying = (self._stages["publish"] - self._unpacked_at) * 1000 if self._unpacked_at else 0.0
        return BuildTimes(total, self._resolving_ms, unpacking, self._compiling_ms, verifying)


async def time_build(store: Path, requirements: Sequence[str], *, lock: Lock | None = None) -> BuildTimes:
    """Time a build by newly opened parts of an engine, without their close. A lock needs no resolution."""
    backend = open_backend("subprocess")
    pool = Pool(backend, max_memory=DEFAULT_WARM_MEMORY)
    watch = _Stopwatch(BoxJobRunner(pool, Threads()))
    provider = Provider(watch, store=store, on_progress=watch.tell)
    needs = Needs(requirements=tuple(requirements), requires_python=None, policy=load("default"))
    try:
        await provider.provide(needs, lock=lock)
        return watch.stop()
    finally:
        await pool.close()
        await backend.close()
        provider.close()


class _Builds:
    """All builds of one kind."""

    def __init__(self, make: Callable[[], Awaitable[BuildTimes]]) -> None:
        self._make = make
        self._times: list[BuildTimes] = []

    async def measure(self) -> float:
        self._times.append(await self._make())
        return self._times[-1].total

    def spreads(self, name: str, *, rounds: int) -> dict[str, Spread]:
        """Return the spreads of all parts, and of the time that the goals compare."""
        times = self._times[-rounds:]
        parts = {part: spread([getattr(each, part) for each in times]) for part in BuildTimes.__dataclass_fields__}
        own = {f"{name}: {part}": found for part, found in parts.items() if part != "total" and found.p50}
        return {name: parts["total"], f"{name}{_APART}": spread([each.apart for each in times]), **own}


def measure(*, is_quick: bool) -> Report:
    """Measure builds."""
    quick, full = _Extent(("six",), 1, 1), _Extent(("numpy", "pandas", "tabulate"), 20, 5)
    return asyncio.run(_measure(quick if is_quick else full))


async def _measure(extent: _Extent) -> Report:
    with temporary_folder() as folder:
        asked = extent.requirements
        async with AsyncSandbox(store=folder / "trees") as sandbox:
            lock = await sandbox.lock(requirements=[*asked])
        for name in ("trees", "wheels"):
            await build(folder / name, asked)
        uv = BareUv(folder / "uv", lock)
        trees = _Builds(lambda: _build_again(folder / "trees", asked))
        wheels = _Builds(lambda: _build_again(folder / "wheels", asked, and_trees=True))
        empty = (folder / f"cold-{number}" for number in count())
        locked = _Builds(lambda: time_build(next(empty), asked, lock=lock))
        cold = _Builds(lambda: time_build(next(empty), asked))
        warm_cases = {_TREES: trees.measure, _UV_WARM: uv.warm}
        found = await take_turns(warm_cases, rounds=extent.warm_rounds)
        slow_cases = {
            _WHEELS: wheels.measure,
            _LOCKED: locked.measure,
            _COLD: cold.measure,
            _UV_WHEELS: lambda: uv.unpacked(folder / "wheels" / "wheels"),
            _UV_LOCKED: uv.cold_lock,
            _UV_COLD: lambda: uv.cold(asked),
            _UV_IN_STEPS: lambda: uv.in_two_steps(asked),
            _UV_COMPILING: lambda: uv.cold(asked, is_compiled=True),
        }
        found |= await take_turns(slow_cases, rounds=extent.rounds, warm_up_rounds=0)
    cases = trees.spreads(_TREES, rounds=extent.warm_rounds)
    for name, builds in ((_WHEELS, wheels), (_LOCKED, locked), (_COLD, cold)):
        cases |= builds.spreads(name, rounds=extent.rounds)
    return _build_report(
        cases, {name: spread(values) for name, values in found.items() if name.startswith("uv")}, asked
    )


async def _build_again(store: Path, requirements: Sequence[str], *, and_trees: bool = False) -> BuildTimes:
    set_aside(store, and_trees=and_trees)
    return await time_build(store, requirements)


def _build_report(cases: dict[str, Spread], floors: dict[str, Spread], requirements: Sequence[str]) -> Report:
    in_steps = ratio(floors[_UV_IN_STEPS], floors[_UV_COLD])
    held = (
        (_TREES, _UV_WARM, 1.5),
        (_WHEELS + _APART, _UV_WHEELS, 1.5),
        (_LOCKED + _APART, _UV_LOCKED, 1.3),
        (_COLD + _APART, _UV_COLD, 1.3),
    )
    return build_report(
        "environment_builds",
        cases={f"build, {name}": found for name, found in cases.items()},
        floors=floors,
        ratios={f"{_UV_IN_STEPS} / {_UV_COLD}": in_steps},
        goals=[
            at_most(f"build, {case} / {floor}", ratio(cases[case], floors[floor]), bound) for case, floor, bound in held
        ],
        notes={"built": list(requirements)},
    )


if __name__ == "__main__":
    run_alone(measure)
