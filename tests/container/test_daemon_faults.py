"""Errors name the losses and failures of a daemon, and calls succeed again after its repair.

The tests have a daemon of their own: they stop it, fill its disk, and remove its images.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sandbox import Policy, Sandbox
from sandbox.backends.container import backend
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.docker import attach
from sandbox.backends.container.docker.client import connect
from sandbox.errors import BackendUnavailable, SandboxError
from sandbox.images import BaseImage, bootstrap, list_environment_images
from sandbox.policy import load
from sandbox.pool import opener
from sandbox.protocol.frames import PROTOCOL, pack_message
from tests.container.test_faults import containers, only_container, was_lost
from tests.end_to_end.calls import ENDLESS, TRIVIAL, serves, under_way, wait_until
from tests.end_to_end.packages import machine_with, publish, version_of
from tests.indexes import LocalIndex
from tests.provision import docker_daemon as provision
from tests.provision.docker_daemon import Daemon

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]

DISK: Final = 320 << 20
HOSTILE: Final = {
    "ends": "sys.exit(0)",
    "fails": "sys.exit('no Python here')",
    "talks": "\nwhile True: os.write(1, b'no frames at all ' * 4096)",
    "complains": "\nfor _ in range(64): os.write(2, b'x' * (1 << 20))",
    "forges": f"os.write(1, {pack_message({'type': 'hello', 'protocol': PROTOCOL})!r}); os.read(0, 1 << 20)",
    "hangs": "import time; time.sleep(600)",
}


@pytest.fixture
def client(own_daemon: Daemon) -> Iterator[DockerClient]:
    with closing(connect(own_daemon.url)) as client:
        yield client


@pytest.fixture
def base(client: DockerClient) -> BaseImage:
    """There whatever the test before did."""
    return bootstrap(client).image


@pytest.fixture
def sandbox(own_daemon: Daemon, client: DockerClient, base: BaseImage) -> Iterator[Sandbox]:
    """An engine whose calls run in its containers; afterwards it has none."""
    with Sandbox(backend=ContainerBackend(host=own_daemon.url)) as engine:
        yield engine
    assert containers(client) == set()


def single_use(*, ahead: int = 0) -> Policy:
    policy = load("default")
    reuse = policy.reuse.model_copy(update={"mode": load("strict").reuse.mode, "ahead": ahead})
    return policy.model_copy(update={"reuse": reuse})


@pytest.mark.parametrize("end", [Daemon.stop, Daemon.kill], ids=["stopped", "killed"])
def test_a_restarted_daemon_costs_only_the_running_call(
    end: Callable[[Daemon], None], own_daemon: Daemon, sandbox: Sandbox, client: DockerClient
) -> None:
    with under_way(sandbox, ENDLESS) as outcome:
        lost = only_container(client, before=set())
        end(own_daemon)
        assert was_lost(outcome.result())
        with pytest.raises(BackendUnavailable, match="no Docker daemon answers at unix://") as refused:
            sandbox.run(TRIVIAL, {"a": 1, "b": 2})
        assert "start Docker" in (refused.value.remedy or "")
        own_daemon.start()
    assert serves(sandbox)
    assert wait_until(lambda: lost not in containers(client))


def test_a_missing_base_image_is_named_with_its_remedy_until_it_is_back(
    sandbox: Sandbox, client: DockerClient, base: BaseImage
) -> None:
    assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=single_use()).value == 3
    assert wait_until(lambda: not containers(client))
    client.api.remove_image(base.id, force=True)
    with pytest.raises(BackendUnavailable, match="no base image") as refused:
        sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=single_use())
    assert refused.value.remedy == "run `sandbox image bootstrap`"
    bootstrap(client)
    assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=single_use()).value == 3


def test_boxes_opened_ahead_use_the_present_base_image(sandbox: Sandbox, client: DockerClient, base: BaseImage) -> None:
    policy = single_use(ahead=2)
    for _ in range(3):
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=policy).value == 3
    assert wait_until(lambda: _is_removed(client, base.id, with_containers=True))
    made = bootstrap(client).image
    assert made.id != base.id
    for _ in range(5):
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=policy).value == 3


def test_an_environments_image_that_is_gone_is_made_again(
    own_daemon: Daemon, client: DockerClient, base: BaseImage, tmp_path: Path
) -> None:
    publish(tmp_path / "wheels", "small", "1.0")
    backend = ContainerBackend(host=own_daemon.url, environment="image")
    with (
        LocalIndex(tmp_path / "wheels") as index,
        machine_with(index.url),
        Sandbox(backend=backend, store=tmp_path / "store", policy=single_use()) as sandbox,
    ):
        for _ in range(2):
            outcome = sandbox.run(version_of("small", "small==1.0"))
            assert outcome.value == "1.0"
            assert all(value >= 0 for name, value in outcome.timing if name.endswith("_ms"))
            assert wait_until(lambda: not containers(client))
            (made,) = list_environment_images(client)
            client.api.remove_image(made.id, force=True)


def test_a_runtime_whose_program_is_gone_opens_no_box(
    own_daemon: Daemon, client: DockerClient, base: BaseImage
) -> None:
    settings = own_daemon.folder / "daemon.json"
    kept = settings.read_text()
    told = json.loads(kept)
    told["runtimes"]["absent"] = {"path": "/nowhere/absent"}
    settings.write_text(json.dumps(told))
    assert own_daemon.process is not None
    try:
        own_daemon.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "absent" in client.info()["Runtimes"])
        with (
            Sandbox(backend=ContainerBackend(host=own_daemon.url, runtime="absent")) as sandbox,
            pytest.raises(BackendUnavailable, match=r"/nowhere/absent|absent.*no such file") as refused,
        ):
            sandbox.run(TRIVIAL, {"a": 1, "b": 2})
        assert refused.value.remedy
        assert containers(client) == set()
    finally:
        settings.write_text(kept)
        own_daemon.process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize("deed", HOSTILE)
def test_an_image_whose_python_is_a_script_opens_no_box(
    deed: str,
    own_daemon: Daemon,
    sandbox: Sandbox,
    client: DockerClient,
    base: BaseImage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opener, "_MIN_OPENING_S", 2.0)  # which is waited for in full where nothing comes,
    monkeypatch.setattr(attach, "_PATIENCE_S", 3.0 if deed == "hangs" else 600.0)  # and this, but not after an end
    assert serves(sandbox)
    opens_no_box(deed, own_daemon, client, base)
    assert serves(sandbox)


def test_the_daemon_reports_a_container_that_ends_before_it_is_inspected(
    own_daemon: Daemon, client: DockerClient, base: BaseImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be found then: it had a process when the daemon was asked, and nothing is known of that one."""
    monkeypatch.setattr(backend, "meter_of", lambda *_, **__: None)
    monkeypatch.setattr(attach, "_PATIENCE_S", 600.0)
    opens_no_box("fails", own_daemon, client, base)


def opens_no_box(deed: str, own_daemon: Daemon, client: DockerClient, base: BaseImage) -> None:
    """A call in a container whose Python does that is refused in a few words, and nothing of it is left."""
    before = containers(client)
    script = f"#!/usr/bin/python3.11 -IS\nimport os, sys\n{HOSTILE[deed]}\n"
    policy = load("default")
    brisk = policy.model_copy(update={"limits": policy.limits.model_copy(update={"wall": 1.0})})
    with (
        base_with_python(client, base, script),
        Sandbox(backend=ContainerBackend(host=own_daemon.url), policy=brisk) as fooled,
    ):
        with pytest.raises(SandboxError) as refused:
            fooled.run(TRIVIAL, {"a": 1, "b": 2})
        assert len(str(refused.value)) < 2000
        assert wait_until(lambda: containers(client) == before)


@contextmanager
def base_with_python(client: DockerClient, base: BaseImage, script: str) -> Iterator[None]:
    """The base image's tag and labels, on one whose Python is this script."""
    maker = client.api.create_container(base.tag, ["true"])["Id"]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("python3")
        member.size, member.mode = len(script.encode()), 0o755
        tar.addfile(member, io.BytesIO(script.encode()))
    client.api.put_archive(maker, "/usr/bin", archive.getvalue())
    repository, _, tag = base.tag.partition(":")
    made = client.api.commit(maker, repository, tag)["Id"]
    client.api.remove_container(maker)
    try:
        yield
    finally:
        client.api.tag(base.id, repository, tag, force=True)
        assert wait_until(lambda: _is_removed(client, made))


def _is_removed(client: DockerClient, image: str, *, with_containers: bool = False) -> bool:
    from docker.errors import APIError

    for container in containers(client) if with_containers else ():
        with suppress(APIError):
            client.api.remove_container(container, force=True)
    try:
        client.api.remove_image(image, force=True)
    except APIError as error:
        return error.status_code == 404
    return True


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of its own, which can be filled."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk: Path) -> Path:
    """A file that leaves no room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 20)):
                pass
        except OSError:
            return filler
    raise AssertionError("the disk cannot be filled")


def test_a_daemon_whose_disk_is_full_opens_no_box_until_there_is_room(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        provision.started(f"--data-root={disk}") as daemon,
        closing(connect(daemon.url)) as client,
        Sandbox(backend=ContainerBackend(host=daemon.url)) as sandbox,
    ):
        bootstrap(client)
        assert serves(sandbox)
        filler = fill(disk)
        assert serves(sandbox)  # in the container that is open
        with pytest.raises(BackendUnavailable, match=r"disk is full: making a container.*no space left") as full:
            sandbox.run(TRIVIAL, {"a": 1, "b": 2}, tenant="another")
        assert "sandbox image prune" in (full.value.remedy or "")
        filler.unlink()
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, tenant="another").value == 3
