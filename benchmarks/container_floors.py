"""The container daemon of the benchmarks, and the floors of containers.

The floor is `docker run --rm --network none` of the boxes' image, which prints one JSON document: a container per call
without an engine. The benchmark also measures the same four API requests without the command line around them, for
information: no goal compares with them.

The daemon is the one that DOCKER_HOST names. Without that variable, the benchmark starts a daemon of the tests for the
duration of the measurement; the report says which daemon it was.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from benchmarks.turns import Case
from sandbox.backends.container.docker.client import connect
from sandbox.images import bootstrap
from tests.provision import docker_daemon

DOCKER_RUN: Final = "docker run"
BY_REQUESTS: Final = "the same by requests to the daemon"
_PROGRAM: Final = ("python3", "-I", "-S", "-c", "import json; print(json.dumps(2+3))")
_SOCKET: Final = "unix://"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that has the image of boxes."""

    url: str
    image: str
    whose: str
    runtimes: tuple[str, ...]


@contextmanager
def open_daemon() -> Iterator[Daemon]:
    """Open the measured daemon, which engines use as well until the block ends."""
    named = os.environ.get("DOCKER_HOST")
    whose = "DOCKER_HOST's" if named else "the tests' own, started to be measured"
    with nullcontext(named) if named else docker_daemon.running() as url:
        os.environ["DOCKER_HOST"] = url
        try:
            yield _describe_daemon(url, whose)
        finally:
            if not named:
                del os.environ["DOCKER_HOST"]


def _describe_daemon(url: str, whose: str) -> Daemon:
    with closing(connect(url)) as client:
        image = bootstrap(client).image.tag
        return Daemon(url, image, whose, tuple(client.info().get("Runtimes") or ()))


def docker_run(daemon: Daemon, runtime: str | None = None) -> Case:
    """Return the floor as a case, under a runtime or the daemon's default."""
    chosen = ("--runtime", runtime) if runtime else ()
    command = ("docker", "run", "--rm", "--network", "none", *chosen, daemon.image, *_PROGRAM)

    async def measure() -> float:
        """Measure, and block the event loop, so that the engine is idle meanwhile."""
        begun = perf_counter()
        _run(command)
        return (perf_counter() - begun) * 1000

    return measure


def _run(command: Sequence[str]) -> None:
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    if json.loads(said) != 5:
        raise RuntimeError(f"the floor answered {said[:100]!r}")


def by_requests(daemon: Daemon) -> Case:
    """Create, start, wait and remove over one connection. Return None if the daemon has no local socket."""

    async def measure() -> float | None:
        if not daemon.url.startswith(_SOCKET):
            return None
        with closing(_Connection(daemon.url.removeprefix(_SOCKET))) as connection:
            begun = perf_counter()
            wanted = {"Image": daemon.image, "Cmd": _PROGRAM, "HostConfig": {"NetworkMode": "none"}}
            id = json.loads(connection.ask("POST", "/containers/create", wanted))["Id"]
            connection.ask("POST", f"/containers/{id}/start")
            connection.ask("POST", f"/containers/{id}/wait")
            connection.ask("DELETE", f"/containers/{id}")
            return (perf_counter() - begun) * 1000

    return measure


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)

    def ask(self, method: str, path: str, content: object = None) -> bytes:
        """Return the daemon's answer, which must be a success."""
        body = None if content is None else json.dumps(content)
        self.request(method, path, body, {"Content-Type": "application/json"})
        answer = self.getresponse()
        said = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {said[:500]!r}")
        return said
