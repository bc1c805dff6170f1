"""Meters report the usage of a single call from outside, compared here with the container's own report."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
from docker.errors import NotFound

from sandbox import Sandbox
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.meters import ContainerMeter, container_facts, meter_of, open_meter, used_since
from sandbox.images import BaseImage
from sandbox.protocols import Reading
from tests.daemons import HARDENED, RUNTIMES
from tests.end_to_end.calls import TRIVIAL, serves, wait_until
from tests.leaks import Watch, descriptors
from tests.unprivileged import NOBODY

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

pytestmark = [pytest.mark.slow, pytest.mark.root]

SHARING_OUR_KERNEL: Final = ("runc", "crun")
MIB: Final = 1 << 20
WITH_A_CHILD_AHEAD: Final = 4
"""The processes of a container at rest: init, the runner, a guard and its tool's."""
ROUNDED_S: Final = 1e-4
"""Counters are read in units of their own, one after the other."""
IDLE: Final = "import signal; print('here', flush=True); signal.pause()"
COMPUTE: Final = "import time\nfor _ in range(20_000_000): pass\nprint(time.process_time())"
"""The same work under every runtime, however long it takes; it says how long by its own clock."""
HOLD: Final = f"held = b'x' * (100 * {MIB})"
HOLD_TOO_MUCH: Final = f"held = b'x' * (400 * {MIB})"
FORK_TOO_OFTEN: Final = """
import os, signal
children = []
try:
    while len(children) < 200:
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
except OSError as error:
    print(error.errno)
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@contextmanager
def running(client: DockerClient, image: BaseImage, *, runtime: str = "runc", **options: Any) -> Iterator[Container]:
    """A hardened container whose main process has said that it is there."""
    limits = {"mem_limit": "256m", "memswap_limit": "256m", "pids_limit": 100}
    command = ["python3", "-I", "-c", IDLE]
    container = client.containers.create(
        image.tag, command, init=True, runtime=runtime, **{**HARDENED, **limits, **options}
    )
    try:
        container.start()
        wait_until_it_speaks(container)
        yield container
    finally:
        with suppress(NotFound):
            container.remove(force=True)


def wait_until_it_speaks(container: Container) -> None:
    deadline = time.monotonic() + 60
    while not container.logs():
        assert time.monotonic() < deadline


@contextmanager
def metered(client: DockerClient, container: Container) -> Iterator[ContainerMeter]:
    meter = open_meter(client, str(container.id))
    assert meter is not None
    with closing(meter):
        yield meter


def call(container: Container, script: str) -> str:
    """Run it in there and wait for it; what it printed."""
    answer = container.exec_run(["python3", "-I", "-c", script]).output
    assert isinstance(answer, bytes)
    return answer.decode()


@contextmanager
def as_unprivileged() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.parametrize("runtime", SHARING_OUR_KERNEL)
def test_processor_time_is_what_the_container_says_it_used(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        said = float(call(container, COMPUTE))
        used = meter.read().cpu_s or 0.0
    assert 0.95 * said < used < 2 * said, "what starts it there counts, too; the kernel's two clocks differ by a little"


def test_what_computing_in_gvisor_takes_is_counted_by_the_hosts_clock(
    docker_client: DockerClient, base_image: BaseImage
) -> None:
    """Return the processor time; the container's own clock counts other processes, too."""
    with running(docker_client, base_image) as container:
        least = float(call(container, COMPUTE)) / 4
    with (
        running(docker_client, base_image, runtime="runsc") as container,
        metered(docker_client, container) as meter,
    ):
        began = time.monotonic()
        call(container, COMPUTE)
        used, passed = meter.read().cpu_s or 0.0, time.monotonic() - began
    assert least < used <= (os.cpu_count() or 1) * passed


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_memory_held_for_a_moment_is_seen_afterwards(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        call(container, HOLD)
        peak = meter.read().memory_peak_bytes
    assert peak is not None
    assert 100 * MIB < peak < 200 * MIB


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_the_first_call_used_is_not_the_seconds(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        call(container, f"{HOLD}\n{COMPUTE}")
        first = meter.read()
        assert meter.renew()
        call(container, "pass")
        second = meter.read()
    assert 0 < (second.cpu_s or 0.0) < (first.cpu_s or 0.0)
    if runtime in SHARING_OUR_KERNEL:
        assert second.memory_peak_bytes is not None
        assert 0 < second.memory_peak_bytes < 100 * MIB


def test_what_a_call_held_in_gvisor_is_soon_no_later_calls(docker_client: DockerClient, base_image: BaseImage) -> None:
    with running(docker_client, base_image, runtime="runsc") as container, metered(docker_client, container) as meter:

        def peak() -> int:
            assert meter.renew()
            call(container, "pass")
            return meter.read().memory_peak_bytes or 0

        call(container, HOLD)
        assert wait_until(lambda: 0 < peak() < 60 * MIB)


@pytest.mark.parametrize("runtime", SHARING_OUR_KERNEL)
def test_kills_for_lack_of_memory_are_counted_for_each_call(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        call(container, HOLD_TOO_MUCH)
        assert meter.read().out_of_memory_kills == 1
        assert meter.renew()
        call(container, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert meter.read().out_of_memory_kills == 0


@pytest.mark.parametrize("runtime", SHARING_OUR_KERNEL)
def test_a_refused_fork_is_counted_for_its_call_only(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        assert call(container, FORK_TOO_OFTEN) == "11\n"
        first = meter.read()
        assert (first.refused_forks, first.processes_peak) == (1, 100)
        assert meter.renew()
        call(container, "pass")
        second = meter.read()
        assert (second.refused_forks, second.processes_peak) == (0, None), "the kernel keeps that peak"


def test_processes_of_ours_do_not_count_as_the_tools(docker_client: DockerClient, base_image: BaseImage) -> None:
    with running(docker_client, base_image) as container:
        meter = open_meter(docker_client, str(container.id), resting=2)
        assert meter is not None
        with closing(meter):
            call(container, FORK_TOO_OFTEN)
            assert meter.read().processes_peak == 98


def test_gvisors_own_processes_do_not_count_as_the_tools(docker_client: DockerClient, base_image: BaseImage) -> None:
    with (
        running(docker_client, base_image, runtime="runsc") as container,
        metered(docker_client, container) as meter,
    ):
        call(container, "import os\nos.fork()")
        assert meter.read().processes_peak is None


def test_a_container_in_no_group_of_its_own_has_no_meter(docker_client: DockerClient, base_image: BaseImage) -> None:
    with running(docker_client, base_image, runtime="runsc-unlimited") as container:
        assert open_meter(docker_client, str(container.id)) is None
        assert container_facts(docker_client, str(container.id)).totals == Reading(), (
            "they are those of the whole machine"
        )


def test_a_stranger_who_got_the_number_of_its_process_is_not_metered() -> None:
    assert meter_of(os.getpid(), "0" * 64) is None
    assert meter_of(0, "0" * 64) is None


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_of_a_container_that_is_gone_nothing_is_known(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        container.remove(force=True)
        assert meter.read() == Reading()
        assert not meter.renew()
        assert container_facts(docker_client, str(container.id)).status == "gone"
        with running(docker_client, base_image, runtime=runtime):
            assert meter.read() == Reading()


@pytest.mark.parametrize("runtime", SHARING_OUR_KERNEL)
def test_what_was_counted_when_a_container_ended_is_known_when_it_is_gone(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        call(container, COMPUTE)
        assert meter.renew()
        call(container, HOLD_TOO_MUCH)
        meter.remember()
        counted = meter.read()
        container.remove(force=True)
        assert meter.read() == counted
        assert counted.out_of_memory_kills == 1
        assert not meter.renew()
        assert meter.read() == Reading(), "it is no later call's"


def test_a_meter_gives_its_descriptors_back(docker_client: DockerClient, base_image: BaseImage) -> None:
    with running(docker_client, base_image) as container:
        with metered(docker_client, container):
            pass
        watch = Watch(descriptors)
        with metered(docker_client, container) as meter:
            meter.read()
            assert meter.renew()
            assert watch.leftovers(within=0)
        assert watch.leftovers() == {}


def test_without_root_only_peaks_of_earlier_calls_are_missing(
    docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image) as container:
        container.reload()
        with as_unprivileged():
            meter = meter_of(int(container.attrs["State"]["Pid"]), str(container.id))
        assert meter is not None
        with closing(meter):
            call(container, f"{HOLD}\n{COMPUTE}")
            first = meter.read()
            assert meter.renew()
            call(container, "pass")
            second = meter.read()
    assert first.memory_peak_bytes is not None
    assert 100 * MIB < first.memory_peak_bytes < 150 * MIB
    assert second.memory_peak_bytes is None
    assert second.cpu_s is not None
    assert first.cpu_s is not None
    assert 0 < second.cpu_s < first.cpu_s


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_daemon_tells_a_kill_for_memory_from_any_other(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container:
        container.kill()
        container.wait()
        killed = container_facts(docker_client, str(container.id))
    greedy = ["python3", "-I", "-c", f"print('here', flush=True); {HOLD_TOO_MUCH}"]
    with running(docker_client, base_image, runtime=runtime, entrypoint=greedy) as container:
        container.wait()
        starved = container_facts(docker_client, str(container.id))
    assert (killed.status, killed.exit_code, killed.out_of_memory) == ("exited", 137, False)
    assert (starved.status, starved.exit_code, starved.out_of_memory) == ("exited", 137, True)


@pytest.mark.parametrize("runtime", SHARING_OUR_KERNEL)
def test_the_daemon_tells_of_a_kill_in_a_container_that_lives_on(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    with running(docker_client, base_image, runtime=runtime) as container:
        before = container_facts(docker_client, str(container.id))
        call(container, HOLD_TOO_MUCH)
        after = container_facts(docker_client, str(container.id), awaits_reason=True)
    assert (before.status, before.exit_code, before.out_of_memory) == ("running", None, False)
    assert (after.status, after.exit_code, after.out_of_memory) == ("running", None, True)
    assert used_since(before.totals, now=after.totals).out_of_memory_kills == 1


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_daemons_counters_are_the_kernels(runtime: str, docker_client: DockerClient, base_image: BaseImage) -> None:
    with running(docker_client, base_image, runtime=runtime) as container, metered(docker_client, container) as meter:
        marks = [meter.read().cpu_s or 0.0]
        before = container_facts(docker_client, str(container.id))
        marks.append(meter.read().cpu_s or 0.0)
        call(container, COMPUTE)
        marks.append(meter.read().cpu_s or 0.0)
        used = used_since(before.totals, now=container_facts(docker_client, str(container.id)).totals)
        marks.append(meter.read().cpu_s or 0.0)
    least, most = marks[2] - marks[1] - ROUNDED_S, marks[3] - marks[0] + ROUNDED_S
    assert least <= (used.cpu_s or 0.0) <= most, "asked in between"


def test_what_a_container_does_between_calls_is_no_calls(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    """Such as forking a child for the next one, and having it rehearse: most of what there is to do for short calls."""
    api = docker_client.api
    before = {found["Id"] for found in api.containers()}
    with Sandbox(backend=ContainerBackend(host=docker_daemon, runtime="runc")) as sandbox:
        assert serves(sandbox)
        (container,) = {found["Id"] for found in api.containers()} - before
        meter = open_meter(docker_client, container)
        assert meter is not None
        with closing(meter):
            told = 0.0
            for _ in range(10):
                assert wait_until(lambda: len(api.top(container)["Processes"]) == WITH_A_CHILD_AHEAD)
                told += sandbox.run(TRIVIAL, {"a": 1, "b": 2}).usage.cpu_s or 0.0
            used = meter.read().cpu_s or 0.0
    assert 0 < told < used / 2
