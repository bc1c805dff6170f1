"""Which daemon the `image` commands speak to: the one that calls use, unless the command line names another."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from docker import DockerClient

DockerHost = Annotated[
    str | None,
    typer.Option(
        "--docker-host",
        metavar="URL",
        help="The Docker daemon to use, instead of the configuration's, or else DOCKER_HOST's.",
    ),
]


def connected(docker_host: str | None) -> closing[DockerClient]:
    """A client of that daemon, for the time of a `with`."""
    from sandbox.backends.docker.daemon import connect
    from sandbox.config import load_configuration

    return closing(connect(docker_host or load_configuration().container.host))
