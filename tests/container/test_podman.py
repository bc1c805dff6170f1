"""Podman's compatible service is a daemon like another: it keeps the contract's main part, and loses boxes as well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox, Status
from sandbox.backends.base import Box
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.box import ContainerBox
from sandbox.backends.container.docker.client import connect, is_podman
from sandbox.images import bootstrap
from sandbox.testing.contract import CHECKS, Check, Subject, limits, run_check
from tests.container.test_faults import containers
from tests.end_to_end.packages import machine_with, publish, version_of
from tests.indexes import LocalIndex
from tests.provision import podman

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300, func_only=True)]

LONGEST_S: Final = 200.0


@pytest.fixture(scope="module")
def podman_service() -> Iterator[str]:
    """Return the value for DOCKER_HOST of a Podman with the base image."""
    with podman.running() as url:
        with closing(connect(url)) as client:
            bootstrap(client)
        yield url


@pytest.fixture(scope="module")
def try_check(podman_service: str) -> Iterator[Callable[[Check], None]]:
    """Try a check on its containers; they share one engine, which leaves none."""
    with closing(connect(podman_service)) as client:

        def kill(box: Box) -> None:
            assert isinstance(box, ContainerBox)
            client.api.kill(box.id)
            client.api.wait(box.id)

        def remove(box: Box) -> None:
            assert isinstance(box, ContainerBox)
            client.api.remove_container(box.id, force=True)

        subject = Subject(lambda: ContainerBackend(host=podman_service), losses=(kill, remove))
        with asyncio.Runner() as runner:
            yield lambda check: runner.run(run_check(check, subject, within_s=LONGEST_S))
            runner.run(subject.close())
        assert containers(client) == set()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_containers_of_podman(check: Check, try_check: Callable[[Check], None]) -> None:
    try_check(check)


@pytest.mark.parametrize("environment", ["mount", "image"])
def test_requirements_are_shown_in_it_or_sent_to_it(environment: str, podman_service: str, tmp_path: Path) -> None:
    publish(tmp_path / "wheels", "small", "1.0")
    backend = ContainerBackend(host=podman_service, environment="image" if environment == "image" else "mount")
    with (
        LocalIndex(tmp_path / "wheels") as index,
        machine_with(index.url),
        Sandbox(backend=backend, store=tmp_path / "store") as sandbox,
    ):
        assert sandbox.run(version_of("small", "small==1.0")).value == "1.0"


def test_it_is_known_for_what_it_is(podman_service: str) -> None:
    with closing(connect(podman_service)) as client:
        assert is_podman(client)


def test_a_single_use_container_covers_what_it_adds_of_its_own(podman_service: str) -> None:
    """A read-only container of Podman's has a /tmp without a size."""
    with Sandbox(backend=ContainerBackend(host=podman_service, runtime="crun"), policy="strict") as sandbox:
        outcome = sandbox.run(limits.FILL.replace("file{number}", "/tmp/file{number}"), limits={"disk": 4 << 20})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "disk"), outcome.to_json(indent=1)
