"""The tests' own daemon is one: it runs containers under every runtime, and nothing of it outlives it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.images import BaseImage
from tests.checkout import ROOT
from tests.daemons import HARDENED, RUNTIMES
from tests.leaks import Watch, cgroups, mounts
from tests.provision import docker_daemon as provision

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]


def printed(client: DockerClient, image: BaseImage, runtime: str, script: str, **options: Any) -> str:
    """Return the output of this Python program in a hardened container, however the program ends."""
    command = ["python3", "-I", "-c", script]
    container = client.containers.run(image.tag, command, detach=True, runtime=runtime, **{**HARDENED, **options})
    try:
        container.wait()
        return container.logs().decode()
    finally:
        container.remove(force=True)


def test_it_is_not_the_machines_own(docker_daemon: str, docker_client: DockerClient) -> None:
    assert docker_daemon.startswith("unix:///var/tmp/sandbox-run-docker-")
    assert docker_client.info()["DockerRootDir"].startswith("/var/tmp/sandbox-run-docker-")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_limits_hold_under_every_runtime(runtime: str, docker_client: DockerClient, base_image: BaseImage) -> None:
    greedy = "print('began', flush=True); held = [bytearray(b'x' * (8 << 20)) for _ in range(64)]; print('held it all')"
    limits = {"mem_limit": "128m", "memswap_limit": "128m"}
    assert printed(docker_client, base_image, runtime, greedy, **limits) == "began\n"


def test_gvisor_without_control_groups_limits_nothing(docker_client: DockerClient, base_image: BaseImage) -> None:
    greedy = "held = [bytearray(b'x' * (8 << 20)) for _ in range(32)]; print('held it all')"
    limits = {"mem_limit": "128m", "memswap_limit": "128m"}
    assert printed(docker_client, base_image, "runsc-unlimited", greedy, **limits) == "held it all\n"


def test_its_mounts_are_in_nobodys_way(docker_client: DockerClient, base_image: BaseImage) -> None:
    watch = Watch(mounts)
    container = docker_client.containers.run(base_image.tag, ["sleep", "600"], detach=True, **HARDENED)
    try:
        assert watch.leftovers(within=0) == {}
    finally:
        container.remove(force=True)


def test_of_a_killed_run_nothing_stays() -> None:
    provision.remove_abandoned()
    watch = Watch(cgroups)
    command = [sys.executable, "-m", "tests.provision.docker_daemon"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip().removeprefix("unix://")).parent
        daemon = int((folder / "docker.pid").read_text())
        os.kill(daemon, signal.SIGSTOP)  # so that it cannot tidy up
        run.kill()
    kill(daemon)
    assert folder in abandoned()
    provision.remove_abandoned()
    assert folder not in abandoned()
    assert watch.leftovers() == {}


def kill(process: int) -> None:
    descriptor = os.pidfd_open(process)
    try:
        os.kill(process, signal.SIGKILL)
        assert select.select([descriptor], [], [], 60)[0], "it does not die"
    finally:
        os.close(descriptor)


def abandoned() -> set[Path]:
    return set(Path("/var/tmp").glob("sandbox-run-docker-*"))
