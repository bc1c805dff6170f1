"""Two hundred single-use calls, sixteen at once: no call fails, and nothing remains of them.

The benchmark compares, before the engine opens and after it closed, the daemon's containers, volumes and bytes of
layers, and the engine's files in the folder for temporary files. The report notes how many calls found a ready
container.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from benchmarks.alone import run_alone
from benchmarks.calls import ARGUMENTS, SOURCE
from benchmarks.container_calls import single_use_policy
from benchmarks.container_floors import open_daemon
from benchmarks.report import Report, at_most, build_report, spread
from sandbox import AsyncSandbox, Outcome, Status
from sandbox.backends.container.docker.client import connect

if TYPE_CHECKING:
    from docker import DockerClient

_CALLS, _AT_ONCE = 200, 16
_LONGEST_S: Final = 60.0
_STEP_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Resources:
    """Resources that calls could leave behind."""

    containers: int
    volumes: int
    layer_bytes: int
    temporary_files: int


def measure(*, is_quick: bool) -> Report:
    """Measure a crowd of single-use calls."""
    with open_daemon() as daemon, closing(connect(daemon.url)) as client:
        return asyncio.run(_measure(client, calls=8 if is_quick else _CALLS))


async def _measure(client: DockerClient, *, calls: int) -> Report:
    before = _list_resources(client)
    ends: Counter[str] = Counter()
    async with AsyncSandbox(backend="container", policy=single_use_policy(), concurrency=_AT_ONCE) as sandbox:
        begun = perf_counter()
        outcomes = await asyncio.gather(*(sandbox.run(SOURCE, ARGUMENTS) for _ in range(calls)), return_exceptions=True)
        seconds = perf_counter() - begun
        ends.update(_describe_end(outcome) for outcome in outcomes)
        statistics = await sandbox.statistics()
    after = await _list_leftovers(client, before)
    failures = sum(number for end, number in ends.items() if end != Status.OK)
    left = {name: getattr(after, name) - getattr(before, name) for name in asdict(before)}
    case = f"{calls} single-use calls, {_AT_ONCE} at once"
    return build_report(
        "container_crowd",
        cases={case: spread([calls / seconds], unit="calls/s")},
        floors={},
        goals=[
            at_most(f"{case}: failures", failures, 0),
            *(at_most(f"{case}: {name.replace('_', ' ')} left", number, 0) for name, number in left.items()),
        ],
        notes={"ends": dict(ends), "seconds": round(seconds, 1), "pooled_calls": statistics.pooled_calls},
    )


def _describe_end(outcome: Outcome | BaseException) -> str:
    if isinstance(outcome, Outcome):
        return outcome.status if outcome.value == 5 or outcome.status is not Status.OK else "wrong"
    return type(outcome).__name__


def _list_resources(client: DockerClient) -> _Resources:
    used = client.df()
    return _Resources(
        containers=len(client.api.containers(all=True, quiet=True)),
        volumes=len(used.get("Volumes") or ()),
        layer_bytes=int(used.get("LayersSize") or 0),
        temporary_files=sum(1 for path in Path(tempfile.gettempdir()).iterdir() if "sandbox" in path.name),
    )


async def _list_leftovers(client: DockerClient, before: _Resources) -> _Resources:
    """Return what remains, and wait for other users of the daemon, whose resources come and go."""
    for _ in range(round(_LONGEST_S / _STEP_S)):
        now = _list_resources(client)
        if all(getattr(now, name) <= number for name, number in asdict(before).items()):
            return now
        await asyncio.sleep(_STEP_S)
    return now


if __name__ == "__main__":
    run_alone(measure)
