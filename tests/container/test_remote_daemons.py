"""A daemon on another machine, over TLS or SSH: the engine mounts no files, and believes only the right certificate.

The daemon runs on this machine, but the engine sees only its port: it mounts no folder, reads no control group, and
sends environments as images. A login over SSH would need users of the machine, so a script replaces `ssh` and runs the
remote command on this machine.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox, Status
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.docker.client import connect
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.images import bootstrap, list_environment_images
from sandbox.policy import load
from sandbox.policy.model import Filesystem
from sandbox.testing.contract import CHECKS, Check, Subject, run_check
from tests.container.test_faults import containers
from tests.end_to_end.calls import ENDLESS, TRIVIAL, serves, under_way
from tests.end_to_end.packages import machine_with, publish, version_of
from tests.indexes import LocalIndex
from tests.provision import docker_daemon as provision
from tests.provision.certificates import give_to_client, make_authority, make_certificate

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300, func_only=True)]

LONGEST_S: Final = 200.0


@dataclass(frozen=True, slots=True)
class Remote:
    """A daemon behind TLS, and the folders of who may use it and of who may not."""

    url: str
    socket: str
    folder: Path

    def certificates(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """Return a daemon with the base image."""
    folder = tmp_path_factory.mktemp("certificates")
    port = free_port()
    make_certificates(folder)
    with provision.running(*options(folder / "ours", port)) as local:
        with closing(connect(local)) as client:
            bootstrap(client)
        yield Remote(f"tcp://127.0.0.1:{port}", local, folder)


def free_port() -> int:
    """Reserve a port that the kernel assigns to no other program meanwhile."""
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(least // 2, least)
        with socket.socket() as door, suppress(OSError):
            door.bind(("127.0.0.1", port))
            return port


def options(authority: Path, port: int) -> list[str]:
    return [
        f"--host=tcp://127.0.0.1:{port}",
        "--tlsverify",
        f"--tlscacert={authority}/ca.pem",
        f"--tlscert={authority}/server.pem",
        f"--tlskey={authority}/server-key.pem",
    ]


def make_certificates(folder: Path) -> None:
    ours, theirs = folder / "ours", folder / "theirs"
    for authority in (ours, theirs):
        make_authority(authority)
        make_certificate(authority, "client", host="DNS:client")
    make_certificate(ours, "server", host="IP:127.0.0.1")
    give_to_client(folder / "right", trusts=ours, shows=ours)
    give_to_client(folder / "trusts another", trusts=theirs, shows=ours)
    give_to_client(folder / "shows another", trusts=ours, shows=theirs)
    shutil.copytree(folder / "right", folder / "has no key").joinpath("key.pem").unlink()


@pytest.fixture
def trusted(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """The same, with the right certificates in the environment."""
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", remote.certificates("right"))
    return remote


SSH: Final = """#!/bin/sh
[ "$*" = "-T -l me -p 2200 -- elsewhere docker system dial-stdio" ] || exit 255
exec docker --host {url} system dial-stdio
"""


@pytest.fixture
def over_ssh(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the daemon's address over SSH."""
    program = tmp_path / "ssh"
    program.write_text(SSH.format(url=remote.socket))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return "ssh://me@elsewhere:2200"


@pytest.fixture(scope="module")
def try_check(remote: Remote) -> Iterator[Callable[[Check], None]]:
    """Try a check on its containers; they share one engine, which leaves none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_TLS_VERIFY", "1")
        patch.setenv("DOCKER_CERT_PATH", remote.certificates("right"))
        subject = Subject(lambda: ContainerBackend(host=remote.url))
        with asyncio.Runner() as runner:
            yield lambda check: runner.run(run_check(check, subject, within_s=LONGEST_S))
            runner.run(subject.close())
        with closing(connect(remote.url)) as client:
            assert containers(client) == set()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_containers_of_a_remote_daemon(check: Check, try_check: Callable[[Check], None]) -> None:
    try_check(check)


def test_requirements_are_sent_to_it_as_an_image(trusted: Remote, tmp_path: Path) -> None:
    publish(tmp_path / "wheels", "small", "1.0")
    with (
        LocalIndex(tmp_path / "wheels") as index,
        machine_with(index.url),
        closing(connect(trusted.url)) as client,
        Sandbox(backend=ContainerBackend(host=trusted.url), store=tmp_path / "store") as sandbox,
    ):
        assert sandbox.run(version_of("small", "small==1.0")).value == "1.0"
        (image,) = list_environment_images(client)
        (container,) = client.api.containers(filters={"ancestor": image.id})
        assert client.api.inspect_container(container["Id"])["Mounts"] == []


def test_a_policy_that_shows_files_of_this_machine_is_refused(trusted: Remote) -> None:
    policy = load("default").model_copy(update={"filesystem": Filesystem(readable=("/usr/share",))})
    with (
        Sandbox(backend=ContainerBackend(host=trusted.url)) as sandbox,
        pytest.raises(IsolationUnavailable, match="shows files of this machine") as refused,
    ):
        sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=policy)
    assert refused.value.missing == ("filesystem.readable",)
    assert "the subprocess backend" in (refused.value.remedy or "")


@pytest.mark.parametrize("certificates", ["trusts another", "shows another", "has no key"])
def test_the_error_names_wrong_certificates(certificates: str, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", remote.certificates(certificates))
    with (
        Sandbox(backend=ContainerBackend(host=remote.url)) as sandbox,
        pytest.raises(BackendUnavailable, match="no safe connection to the Docker daemon at tcp://") as refused,
    ):
        sandbox.run(TRIVIAL, {"a": 1, "b": 2})
    assert "DOCKER_CERT_PATH" in (refused.value.remedy or "")


def test_an_unverified_daemon_causes_one_warning(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    monkeypatch.setenv("DOCKER_CERT_PATH", remote.certificates("trusts another"))
    with pytest.warns(UserWarning, match="DOCKER_TLS_VERIFY=1") as said, closing(connect(remote.url)) as client:
        client.ping()
    assert len(said) == 1


def test_a_daemon_of_another_name_is_not_believed(trusted: Remote) -> None:
    with (
        Sandbox(backend=ContainerBackend(host=trusted.url.replace("127.0.0.1", "localhost"))) as sandbox,
        pytest.raises(BackendUnavailable, match="no safe connection"),
    ):
        sandbox.run(TRIVIAL, {"a": 1, "b": 2})


def test_without_tls_it_does_not_answer(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    monkeypatch.delenv("DOCKER_CERT_PATH", raising=False)
    with Sandbox(backend=ContainerBackend(host=remote.url)) as sandbox, pytest.raises(BackendUnavailable) as refused:
        sandbox.run(TRIVIAL, {"a": 1, "b": 2})
    assert "HTTPS" in str(refused.value)


def test_it_serves_the_next_engine_as_well(trusted: Remote) -> None:
    for _ in range(2):
        with Sandbox(backend=ContainerBackend(host=trusted.url)) as sandbox:
            assert serves(sandbox)


def test_over_ssh_it_serves_calls_with_what_they_require(over_ssh: str, tmp_path: Path) -> None:
    publish(tmp_path / "wheels", "small", "1.0")
    with closing(connect(over_ssh)) as client:
        before = containers(client)
    with (
        LocalIndex(tmp_path / "wheels") as index,
        machine_with(index.url),
        Sandbox(backend=ContainerBackend(host=over_ssh), store=tmp_path / "store") as sandbox,
    ):
        assert serves(sandbox)
        outcome = sandbox.run(version_of("small", "small==1.0"))
    assert (outcome.value, outcome.receipt and outcome.receipt.backend) == ("1.0", "container")
    with closing(connect(over_ssh)) as client:
        assert containers(client) <= before


def test_over_ssh_a_call_that_is_given_up_ends(over_ssh: str) -> None:
    with Sandbox(backend=ContainerBackend(host=over_ssh)) as sandbox:
        with under_way(sandbox, ENDLESS, limits={"wall": 3}) as outcome:
            assert outcome.result().status is Status.TIMEOUT
        assert serves(sandbox)
