"""A Docker daemon for tests, and the base image in it.

Both are made when the first test asks and shared by the run: `docker_daemon` is the url of a daemon that is the tests'
own and has every runtime (see `tests/provision/docker_daemon.py`), `docker_client` is connected to it, and
`base_image` is the image that containers start from. Making that takes minutes on a machine where nobody did before,
so for a test that asks for it only its own time counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from sandbox.backends.docker.daemon import connect
from sandbox.images import BaseImage, bootstrap
from tests.provision import ProvisionError
from tests.provision import docker_daemon as provision
from tests.provision.absent import not_tested

if TYPE_CHECKING:
    from docker import DockerClient

Opened = TypeVar("Opened")

RUNTIMES: Final = ("runc", "crun", "runsc")
HARDENED: Final[dict[str, Any]] = {
    "network_mode": "none",
    "read_only": True,
    "user": "200001:200001",
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
}
"""As for `client.containers.run`."""
_OWN_SECONDS: Final = 240
_DAEMONS: Final = {"docker_daemon", "own_daemon"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _DAEMONS & {*getattr(item, "fixturenames", ())} and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_OWN_SECONDS, func_only=True))


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[str]:
    """What to put into DOCKER_HOST."""
    with ExitStack() as kept:
        yield _open(provision.running(), kept)


@pytest.fixture(scope="module")
def own_daemon() -> Iterator[provision.Daemon]:
    """One for the tests of a module to break. It begins without images."""
    with ExitStack() as kept:
        yield _open(provision.started(), kept)


def _open(daemon: AbstractContextManager[Opened], kept: ExitStack) -> Opened:
    try:
        return kept.enter_context(daemon)
    except ProvisionError as error:
        not_tested("containers", remedy=str(error))


@pytest.fixture(scope="session")
def docker_client(docker_daemon: str) -> Iterator[DockerClient]:
    """A client of it."""
    with closing(connect(docker_daemon)) as client:
        yield client


@pytest.fixture(scope="session")
def base_image(docker_client: DockerClient) -> BaseImage:
    """The image that containers start from. Name it by its tag: a test may have lost it and imported it again."""
    return bootstrap(docker_client).image
