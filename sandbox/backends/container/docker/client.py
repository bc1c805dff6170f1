"""Clients of the Docker SDK, for a daemon that answers and is new enough.

The SDK is imported by the first connection, not before.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from sandbox.backends.container.docker.address import find_url, uses_tls
from sandbox.backends.container.docker.config import usable_docker_config
from sandbox.backends.container.docker.failures import (
    CORRECT_CERTIFICATES,
    OLDEST_API,
    too_old,
    translate_failures,
)
from sandbox.errors import BackendUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

Answer = TypeVar("Answer")

CERTIFICATES: Final = ("ca.pem", "cert.pem", "key.pem")
_CONNECT_S: Final = 5.0
_REACHABLE: Final = ("http+unix://", "http://", "https://", "ssh://")
"""The schemes that this module can reach, as the SDK writes them; the other ones are for other systems."""
_WRITE_IT: Final = "write it like unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host"
_FIRST_ANSWER_S: Final = 10.0
"""The time for the first answer, as a whole: the listener may be no daemon at all."""
_UNVERIFIED: Final = (
    "the TLS certificate of the Docker daemon at {address} is not verified: any machine may answer for it. "
    "Set DOCKER_TLS_VERIFY=1"
)


def connect(host: str | None = None, *, timeout_s: float = 60.0) -> DockerClient:
    """Return a client of that daemon, or of `DOCKER_HOST`'s, after its first answer; the caller closes it.

    `timeout_s` bounds the silence of the daemon before any later answer.
    """
    address = find_url(host)
    with translate_failures("connecting", host=address):
        check_socket(address)
        client = _client(address, timeout_s)
    if _version(client.api.api_version) < OLDEST_API:
        spoken = client.api.api_version
        client.close()
        raise too_old(address, spoken)
    return client


def check_socket(address: str) -> None:
    """Raise `OSError` if nothing listens on that socket."""
    # The SDK would leave a socket of its own open here, and takes longer to fail.
    path = address.removeprefix("unix://")
    if path != address:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_CONNECT_S)
            probe.connect(path)


def is_podman(client: DockerClient) -> bool:
    """Return whether the daemon is Podman's."""
    return any("podman" in str(part.get("Name", "")).lower() for part in client.version().get("Components") or ())


def tags_of(image: Mapping[str, Any]) -> list[str]:
    """Return the names of an image from a daemon's description of it."""
    # Podman adds a registry to names that have none.
    tags = [str(tag) for tag in image.get("RepoTags") or ()]
    return [tag.removeprefix("docker.io/").removeprefix("localhost/") for tag in tags]


def _client(address: str, timeout_s: float) -> DockerClient:
    """Return a client with the daemon's own version of the API."""
    oldest = ".".join(map(str, OLDEST_API))
    with closing(_client_of_version(oldest, address, min(timeout_s, _FIRST_ANSWER_S))) as first:
        spoken = _within(_FIRST_ANSWER_S, partial(_ask_version, first))
    return _client_of_version(spoken, address, timeout_s)


def _client_of_version(version: str, address: str, timeout_s: float) -> DockerClient:
    from docker import DockerClient
    from docker.errors import DockerException
    from docker.utils import parse_host

    try:
        parsed = str(parse_host(address))
    except (ValueError, DockerException) as error:
        raise BackendUnavailable(f"{address[:200]} is no address of a daemon: {error}", remedy=_WRITE_IT) from error
    if not parsed.startswith(_REACHABLE):
        raise BackendUnavailable(f"{address[:200]} is an address that nothing here can reach", remedy=_WRITE_IT)
    if address.startswith("ssh://"):
        return _client_over_ssh(version, address, timeout_s)
    variables = {**os.environ, "DOCKER_HOST": address}
    if uses_tls(address):
        _check_certificates(address)
        if not os.environ.get("DOCKER_TLS_VERIFY"):
            _warn_of_missing_verification(address)
    with usable_docker_config():
        client = DockerClient.from_env(environment=variables, version=version, timeout=int(timeout_s))
    client.api.trust_env = False  # or REQUESTS_CA_BUNDLE would replace the daemon's own authority
    return client


def _client_over_ssh(version: str, address: str, timeout_s: float) -> DockerClient:
    from docker import DockerClient

    from sandbox.backends.container.docker.ssh_socket import SshAdapter

    with usable_docker_config():
        client = DockerClient(base_url="http://over-ssh:80", version=version, timeout=int(timeout_s))
    client.api.mount("http://", SshAdapter(address, timeout_s=timeout_s))
    client.api.trust_env = False
    return client


def _check_certificates(address: str) -> None:
    # The SDK's own error names neither the missing file nor the folder.
    folder = os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")
    missing = [name for name in CERTIFICATES if not os.path.isfile(os.path.join(folder, name))]
    if missing:
        raise BackendUnavailable(
            f"no safe connection to the Docker daemon at {address}: {folder[:200]} has no {', '.join(missing)}",
            remedy=CORRECT_CERTIFICATES,
        )


@cache
def _warn_of_missing_verification(address: str) -> None:
    """Warn once, and silence urllib3's warning for each request, which names neither Docker nor a remedy."""
    from urllib3.exceptions import InsecureRequestWarning

    host = re.escape(urlsplit(address).hostname or "")
    warnings.filterwarnings(
        "ignore", f"Unverified HTTPS request is being made to host '{host}'", InsecureRequestWarning
    )
    warnings.warn(_UNVERIFIED.format(address=address[:200]), stacklevel=2)


def _within(seconds: float, question: Callable[[], Answer]) -> Answer:
    """Return the answer; raise `TimeoutError` if it takes longer, even if it arrives in small pieces."""
    answer = Future[Answer]()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="docker", daemon=True).start()
    return answer.result(seconds)


def _ask_version(client: DockerClient) -> str:
    from docker.errors import DockerException

    try:
        return str(client.api.version(api_version=False)["ApiVersion"])
    except (KeyError, TypeError, ValueError) as error:
        raise DockerException("the listener is no Docker daemon") from error


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
