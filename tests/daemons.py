"""A Docker daemon for tests, and the base image in it.

Both are made when the first test asks and shared by the run: `docker_daemon` is the url of a daemon that is the tests'
own and has every runtime (see `tests/provision/docker_daemon.py`), `docker_client` is connected to it, and
`base_image` is the image that containers start from. Making that image takes minutes on a fresh machine, so only a
test's own time counts. A test that asks for a daemon is marked `containers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.backends.container.docker.client import connect
from sandbox.images import BaseImage, bootstrap
from tests.provision import docker_daemon as provision

if TYPE_CHECKING:
    from docker import DockerClient

RUNTIMES: Final = ("runc", "crun", "runsc")
HARDENED: Final[dict[str, Any]] = {
    "network_mode": "none",
    "read_only": True,
    "user": "200001:200001",
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
}
"""The options of `client.containers.run`."""
_OWN_SECONDS: Final = 240
_DAEMONS: Final = {"docker_daemon", "own_daemon", "podman_service"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not _DAEMONS & {*getattr(item, "fixturenames", ())}:
            continue
        item.add_marker("containers")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_OWN_SECONDS, func_only=True))


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[str]:
    """Run a daemon for the whole run; the value of DOCKER_HOST."""
    with provision.running() as url:
        yield url


@pytest.fixture(scope="module")
def own_daemon() -> Iterator[provision.Daemon]:
    """Run a daemon for the tests of a module to break. The daemon has no images yet."""
    with provision.started() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def docker_client(docker_daemon: str) -> Iterator[DockerClient]:
    """Connect a client to the daemon."""
    with closing(connect(docker_daemon)) as client:
        yield client


@pytest.fixture(scope="session")
def base_image(docker_client: DockerClient) -> BaseImage:
    """Make the image that containers start from. Name it by its tag: a test may have imported it again."""
    return bootstrap(docker_client).image
