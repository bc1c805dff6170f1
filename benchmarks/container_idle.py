"""The cost of containers that wait for their next call: memory of one, and processor time of many.

*Memory*: the proportional set size of all processes in a warm container, both right after calls, with children forked
ahead, and, for the goal, after the quiet time in which the container ends them. The floors are two bare Pythons that
wait at the same time in containers of the same image, without an init process: one at its prompt, and the smallest
possible one. *Processor time*: eight tools with four warm containers each; the benchmark adds what their control groups
and this process, which holds the engine, use in some seconds without calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import psutil

from benchmarks.alone import run_alone
from benchmarks.calls import call
from benchmarks.container_floors import Daemon, open_daemon
from benchmarks.idle_box import ARGUMENTS, PROMPT, megabytes
from benchmarks.report import Report, at_least, at_most, build_report, merge, ratio, spread
from sandbox import AsyncSandbox, Status
from sandbox.backends.container.docker.client import connect
from sandbox.backends.container.meters import ContainerMeter, open_meter
from sandbox.backends.ownership import LABELS

if TYPE_CHECKING:
    from docker import DockerClient

_AFTER_CALLS: Final = "warm container, right after calls"
_IDLE: Final = "warm container, idle"
_IN_A_CONTAINER: Final = "{}, in a container"
_BOXES: Final = {"label": f"{LABELS}kind=box"}
_TOOLS, _EACH = 8, 4
_QUIET_S: Final = 12.0
_SETTLING_S: Final = 0.3
_STAYING: Final = "import time\ndef stay(seconds: float) -> None:\n    time.sleep(seconds)\n"
_STAYS_S: Final = (2.0, 4.0, 8.0)


def measure(*, is_quick: bool) -> Report:
    """Measure idle containers."""
    with open_daemon() as daemon, closing(connect(daemon.url)) as client:
        return asyncio.run(_measure(daemon, client, is_quick=is_quick))


async def _measure(daemon: Daemon, client: DockerClient, *, is_quick: bool) -> Report:
    quiet_s = 0.2 if is_quick else _QUIET_S
    tools, each = (2, 1) if is_quick else (_TOOLS, _EACH)
    memory = await _memory(daemon, client, quiet_s=quiet_s)
    processor = await _processor(client, tools=tools, each=each, quiet_s=quiet_s)
    return merge("container_idle", [memory, processor])


async def _memory(daemon: Daemon, client: DockerClient, *, quiet_s: float) -> Report:
    with ExitStack() as stack:
        bare = {name: stack.enter_context(_start_python(daemon, client, given)) for name, given in ARGUMENTS.items()}
        others = _list_boxes(client)
        async with AsyncSandbox(backend="container") as warm:
            await call(warm)
            (container,) = _list_boxes(client) - others
            for _ in range(20):
                await call(warm)
            await asyncio.sleep(_SETTLING_S)
            cases = {_AFTER_CALLS: megabytes(_list_processes(client, container))}
            await asyncio.sleep(quiet_s)
            cases[_IDLE] = megabytes(_list_processes(client, container))
            floors = {_IN_A_CONTAINER.format(name): megabytes(_list_processes(client, it)) for name, it in bare.items()}
    prompt = _IN_A_CONTAINER.format(PROMPT)
    goal = at_most(f"{_IDLE} / {prompt}", ratio(cases[_IDLE], floors[prompt]), 1.3)
    return build_report("memory", cases=cases, floors=floors, goals=[goal])


@contextmanager
def _start_python(daemon: Daemon, client: DockerClient, arguments: Sequence[str]) -> Iterator[str]:
    """Start a container with a bare Python, and wait until it is up."""
    container: Any = client.containers.create(
        daemon.image, ["python3", *arguments], stdin_open=True, network_mode="none", detach=True
    )
    try:
        container.start()
        next(container.logs(stream=True, follow=True))
        yield str(container.id)
    finally:
        container.remove(force=True)


def _list_boxes(client: DockerClient) -> set[str]:
    return {str(found["Id"]) for found in client.api.containers(filters=_BOXES)}


def _list_processes(client: DockerClient, container: str) -> list[psutil.Process]:
    """Return the processes of a container, or none if the daemon runs on another machine."""
    first = int(client.api.inspect_container(container)["State"]["Pid"])
    try:
        process = psutil.Process(first)
        return [process, *process.children(recursive=True)]
    except (psutil.NoSuchProcess, ValueError):
        return []


async def _processor(client: DockerClient, *, tools: int, each: int, quiet_s: float) -> Report:
    others = _list_boxes(client)
    async with AsyncSandbox(backend="container") as sandbox:
        for number in range(tools):
            await _keep_warm(sandbox, tenant=f"tool-{number}", count=each)
        await asyncio.sleep(quiet_s)
        containers = sorted(_list_boxes(client) - others)
        with ExitStack() as open_meters:
            meters = [_open_meter(client, container, open_meters) for container in containers]
            used = await _measure_processor(meters, seconds=quiet_s)
    case = f"{tools} tools x {each} warm containers, idle"
    cases = {case: spread([] if used is None else [used], unit="ms/s")}
    goals = [
        at_most(f"{case}: milliseconds of processor time a second", used, 10.0),
        at_least("of those, containers that are there", len(containers), tools * each),
    ]
    return build_report("processor", cases=cases, floors={}, goals=goals)


async def _keep_warm(sandbox: AsyncSandbox, *, tenant: str, count: int) -> None:
    """Open that many warm containers for a tenant, with as many calls that last until all have opened."""
    before = (await sandbox.statistics()).warm
    for stay in _STAYS_S:
        calls = (sandbox.run(_STAYING, {"seconds": stay if count > 1 else 0}, tenant=tenant) for _ in range(count))
        for outcome in await asyncio.gather(*calls):
            if outcome.status is not Status.OK:
                raise RuntimeError(f"a call that only waits went wrong: {outcome.to_json()}")
        await asyncio.sleep(0.1)
        if (await sandbox.statistics()).warm >= before + count:
            return


def _open_meter(client: DockerClient, container: str, open_meters: ExitStack) -> ContainerMeter | None:
    meter = open_meter(client, container)
    if meter is not None:
        open_meters.callback(meter.close)
    return meter


async def _measure_processor(meters: Sequence[ContainerMeter | None], *, seconds: float) -> float | None:
    """Return the milliseconds of processor time per second of the groups and this process, or None if a group is not
    visible."""
    for meter in meters:
        if meter is None or not meter.renew():
            return None
    begun, own = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    passed, own = time.perf_counter() - begun, time.process_time() - own
    counted = [meter.read().cpu_s for meter in meters if meter is not None]
    return round((own + sum(each or 0.0 for each in counted)) / passed * 1000, 3)


if __name__ == "__main__":
    run_alone(measure)
