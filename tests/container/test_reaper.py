"""The reaper removes what dead engines left in a daemon, and only that."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox import Sandbox
from sandbox.backends.container import backend
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.docker.client import connect
from sandbox.backends.container.reaper import Reaper
from sandbox.backends.ownership import ContainerOwner
from sandbox.errors import BackendUnavailable
from sandbox.images import BaseImage
from sandbox.policy import load
from tests.checkout import ROOT
from tests.end_to_end.calls import serves, wait_until

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]

HOUR: Final = 3600
ELSEWHERE: Final = "0" * 32
ENGINE: Final = """
import sys, time
from sandbox.backends.ownership import ContainerOwner
from sandbox.backends.container.docker.client import connect
client, owner = connect(), ContainerOwner.current()
host = client.api.create_host_config(network_mode="none")
found = client.api.create_container(
    sys.argv[1], ["sleep", "600"], name=owner.new_name(), host_config=host,
    labels=owner.labels(expires_at=time.time() + 3600))
client.api.start(found)
print(found["Id"], flush=True)
input()
"""

Made = Callable[..., str]


@pytest.fixture
def made(docker_client: DockerClient, base_image: BaseImage) -> Iterator[Made]:
    """Make a container with these labels and this name; its id."""
    ids: list[str] = []

    def make(labels: dict[str, str], name: str, *, image: str = base_image.tag, runs: bool = False) -> str:
        api = docker_client.api
        host = api.create_host_config(network_mode="none")
        id = str(api.create_container(image, ["sleep", "600"], labels=labels, name=name, host_config=host)["Id"])
        ids.append(id)
        if runs:
            api.start(id)
        return id

    yield make
    for id in ids:
        remove(docker_client, id)


def remove(client: DockerClient, id: str) -> None:
    from docker.errors import NotFound

    with suppress(NotFound):
        client.api.remove_container(id, force=True)


def is_there(client: DockerClient, id: str) -> bool:
    return id in {found["Id"] for found in client.api.containers(all=True)}


def dead_owner() -> ContainerOwner:
    """Return an owner whose pid belongs to a process that started at another time."""
    owner = ContainerOwner.current()
    return replace(owner, started=str(int(owner.started) + 1))


def in_an_hour() -> float:
    return time.time() + HOUR


def made_by(owner: ContainerOwner, made: Made, *, expires_at: float | None = None, **options: Any) -> str:
    labels = owner.labels(expires_at=in_an_hour() if expires_at is None else expires_at)
    return made(labels, owner.new_name(), **options)


def test_of_a_killed_engine_nothing_stays(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    environment = {**os.environ, "DOCKER_HOST": docker_daemon, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ENGINE, base_image.tag]
    reaper, id = Reaper(docker_client), ""
    try:
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as engine:
            assert engine.stdout is not None
            id = engine.stdout.readline().strip()
            assert reaper.sweep() == []
            assert docker_client.containers.get(id).status == "running"
            engine.kill()
        assert reaper.sweep() == [id]
        assert not is_there(docker_client, id)
    finally:
        remove(docker_client, id)


def test_what_has_the_number_of_a_dead_engine_does_not_keep_its_containers(
    docker_client: DockerClient, made: Made
) -> None:
    id = made_by(dead_owner(), made)
    assert Reaper(docker_client).sweep() == [id]
    assert Reaper(docker_client).sweep() == []


def test_what_ran_before_the_host_was_started_anew_is_removed(docker_client: DockerClient, made: Made) -> None:
    id = made_by(replace(ContainerOwner.current(), boot="an-earlier-one"), made)
    assert Reaper(docker_client).sweep() == [id]


def test_what_is_paused_is_removed_too(docker_client: DockerClient, made: Made) -> None:
    id = made_by(dead_owner(), made, runs=True)
    docker_client.api.pause(id)
    assert Reaper(docker_client).sweep() == [id]


def test_what_ended_by_itself_is_removed_too(docker_client: DockerClient, made: Made) -> None:
    id = made_by(dead_owner(), made, runs=True)
    docker_client.api.kill(id)
    docker_client.api.wait(id)
    assert Reaper(docker_client).sweep() == [id]


def test_a_living_engine_keeps_its_containers_though_they_expired(docker_client: DockerClient, made: Made) -> None:
    id = made_by(ContainerOwner.current(), made, expires_at=1)
    assert Reaper(docker_client).sweep() == []
    assert is_there(docker_client, id)


def test_a_clock_that_jumps_takes_nothing_from_a_living_engine(docker_client: DockerClient, made: Made) -> None:
    id = made_by(ContainerOwner.current(), made)
    fifty_years = 50 * 365 * 24 * HOUR
    assert Reaper(docker_client, clock=lambda: time.time() - fifty_years).sweep() == []
    assert Reaper(docker_client, clock=lambda: time.time() + fifty_years).sweep() == []
    assert is_there(docker_client, id)


def test_of_engines_on_other_hosts_only_what_expired_long_ago_is_removed(
    docker_client: DockerClient, made: Made
) -> None:
    there = replace(ContainerOwner.current(), host=ELSEWHERE, boot="another", started="1")
    now = time.time()
    in_time, just_expired = made_by(there, made), made_by(there, made, expires_at=now - 60)
    long_expired = made_by(there, made, expires_at=now - 3 * HOUR)
    assert Reaper(docker_client).sweep() == [long_expired]
    assert is_there(docker_client, in_time)
    assert Reaper(docker_client, grace_s=30).sweep() == [just_expired]


def test_the_last_call_of_a_container_has_ended_before_it_expires(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A constant caller gets another container after that time."""
    good_for_s = 2.0
    policy = load("default")
    monkeypatch.setattr(backend, "_IN_USE_S", good_for_s - policy.reuse.idle)
    before = {found["Id"] for found in docker_client.api.containers(all=True)}
    with Sandbox(backend=ContainerBackend(host=docker_daemon), policy=policy) as sandbox:
        begun = time.time()
        assert serves(sandbox)
        (first,) = [each for each in docker_client.containers.list() if each.id not in before]
        assert int(first.labels["sandbox.expires"]) > begun + good_for_s + policy.limits.wall
        assert serves(sandbox)
        assert wait_until(lambda: serves(sandbox) and not is_there(docker_client, str(first.id)))


def test_strangers_containers_stay(docker_client: DockerClient, made: Made, base_image: BaseImage) -> None:
    """A container without labels of its own inherits those of our image."""
    ids = [made({}, f"stranger-{secrets.token_hex(8)}"), made({"sandbox.owner": "me"}, f"me-{secrets.token_hex(8)}")]
    assert Reaper(docker_client, grace_s=0).sweep() == []
    assert all(is_there(docker_client, id) for id in ids)


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("sandbox.owner", "sandbox-engine"),
        ("sandbox.host", ""),
        ("sandbox.pid", "-1"),
        ("sandbox.pid", "99999999999999999999"),
        ("sandbox.started", "nan"),
        ("sandbox.expires", "-inf"),
        ("sandbox.kind", "x"),
    ],
)
def test_what_carries_malformed_labels_stays(label: str, value: str, docker_client: DockerClient, made: Made) -> None:
    owner = dead_owner()
    id = made({**owner.labels(expires_at=1), label: value}, owner.new_name())
    assert Reaper(docker_client, grace_s=0).sweep() == []
    assert is_there(docker_client, id)


def test_a_container_made_from_one_of_ours_stays(
    docker_client: DockerClient, made: Made, base_image: BaseImage
) -> None:
    ours = made_by(dead_owner(), made)
    image = docker_client.containers.get(ours).commit()
    name = f"stranger-{secrets.token_hex(8)}"
    try:
        theirs = made({}, name, image=str(image.id))
        assert docker_client.containers.get(theirs).labels["sandbox.pid"] == str(os.getpid())
        assert Reaper(docker_client).sweep() == [ours]
        assert is_there(docker_client, theirs)
    finally:
        remove(docker_client, name)
        docker_client.api.remove_image(str(image.id))


def test_two_sweeps_at_once_are_in_nobodys_way(docker_daemon: str, docker_client: DockerClient, made: Made) -> None:
    owner = dead_owner()
    left = {made_by(owner, made, runs=number < 3) for number in range(6)}
    kept = made_by(ContainerOwner.current(), made)
    together, removed = threading.Barrier(2), list[str]()

    def sweep() -> None:
        with closing(connect(docker_daemon)) as client:
            together.wait(30)
            removed.extend(Reaper(client).sweep())

    threads = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(removed) == left, "the daemon may say of one to both that it has removed it"
    assert [is_there(docker_client, id) for id in (*left, kept)] == [False] * 6 + [True]


def test_one_that_cannot_be_removed_now_keeps_no_other_from_going(
    docker_client: DockerClient, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is pretended: a daemon that has such a one cannot be had to order."""
    from docker.errors import APIError

    stuck, other = made_by(dead_owner(), made), made_by(dead_owner(), made)
    remove_container = docker_client.api.remove_container

    def refuse(id: str, **options: Any) -> None:
        if id == stuck:
            raise APIError("driver failed to remove root filesystem: device or resource busy")
        remove_container(id, **options)

    with monkeypatch.context() as patched:
        patched.setattr(docker_client.api, "remove_container", refuse)
        assert Reaper(docker_client).sweep() == [other]
    assert Reaper(docker_client).sweep() == [stuck]


def test_without_a_daemon_it_says_what_to_do() -> None:
    from docker import DockerClient

    with (
        closing(DockerClient(base_url="tcp://127.0.0.1:1", version="1.41")) as client,
        pytest.raises(BackendUnavailable, match="start Docker"),
    ):
        Reaper(client).sweep()
