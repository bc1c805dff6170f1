"""The Docker daemon: how it is found, and what its failures mean here.

Which one is said by `DOCKER_HOST` (with `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`) or by the caller; otherwise it is
the machine's own socket. Podman's compatible socket, a remote daemon over TLS and one over SSH are daemons like any
other.

The Docker SDK is imported when somebody connects, not before. Its errors, and those of the two libraries below it, are
translated here and nowhere else: a caller meets `BackendUnavailable`, which says what to do.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from sandbox.backends.docker.config import usable_docker_config
from sandbox.errors import BackendUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

Answer = TypeVar("Answer")

LABELS: Final = "sandbox."
"""How the names of all our labels begin, on images and on containers."""
OWNER_LABEL: Final = f"{LABELS}owner"
"""On an image, this project; on a container, the engine that made it."""
MACHINES_OWN: Final = "unix:///var/run/docker.sock"
_ANY_SOCKET: Final = "unix://"
CERTIFICATES: Final = ("ca.pem", "cert.pem", "key.pem")
OLDEST_API: Final = (1, 41)
_KNOCK_S: Final = 5.0
_WAYS: Final = ("http+unix://", "http://", "https://", "ssh://")
"""How the addresses begin that there is a way to, as the SDK writes them; others are for other systems."""
_WRITE_IT: Final = "write it like unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host"
_FULL: Final = "no space left on device"
_MAKE_ROOM: Final = "make room there, for example with `sandbox image prune --older-than 7d`"
_FIRST_WORD_S: Final = 10.0
"""How long whatever listens there may take to say that it is a daemon, at first."""
_MOST_TOLD: Final = 500
_CERTIFY: Final = "see that DOCKER_CERT_PATH holds ca.pem, cert.pem and key.pem of that daemon"
_BE_SAFE: Final = "if that daemon speaks TLS only, set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to its certificates"
_NOT_KNOWN: Final = "anybody may answer for the Docker daemon at {address}: set DOCKER_TLS_VERIFY=1 to have it verified"
_WANTS_TLS: Final = "to an HTTPS server"
_START_ONE: Final = "start Docker, or name a daemon that runs in DOCKER_HOST"
_START_THIS_ONE: Final = (
    "start Docker there, or name another daemon where this one is named: as container.host in config.toml, or by the "
    "program that asks"
)
_LOOK_THERE: Final = "see what the daemon's own log says"
_SEE_WHO: Final = "see that it is a Docker daemon that listens there, and what its own log says"


def address_of(host: str | None = None, *, variables: Mapping[str, str] = os.environ) -> str:
    """The one that is named, or DOCKER_HOST, or the machine's own."""
    found = host or variables.get("DOCKER_HOST") or MACHINES_OWN
    return MACHINES_OWN if found == _ANY_SOCKET else found


def connect(host: str | None = None, *, timeout_s: float = 60.0) -> DockerClient:
    """A client of that daemon, or of `DOCKER_HOST`'s, which has answered and is new enough; close it after use.

    `timeout_s` is how long the daemon may be silent before any answer; the first has to be there sooner, as a whole.
    """
    address = address_of(host)
    with translated("connecting", host=address):
        knock(address)
        client = _client(address, timeout_s)
    if _version(client.api.api_version) < OLDEST_API:
        spoken = client.api.api_version
        client.close()
        raise _too_old(address, spoken)
    return client


def knock(address: str) -> None:
    """Raise `OSError` where nobody has that socket; the SDK would leave one of its own open, and takes longer."""
    path = address.removeprefix("unix://")
    if path != address:
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(_KNOCK_S)
            door.connect(path)


def _client(address: str, timeout_s: float) -> DockerClient:
    """One that speaks what the daemon speaks."""
    oldest = ".".join(map(str, OLDEST_API))
    with closing(_client_of_version(oldest, address, min(timeout_s, _FIRST_WORD_S))) as first:
        spoken = _within(_FIRST_WORD_S, partial(_spoken, first))
    return _client_of_version(spoken, address, timeout_s)


def _client_of_version(version: str, address: str, timeout_s: float) -> DockerClient:
    from docker import DockerClient
    from docker.errors import DockerException
    from docker.utils import parse_host

    try:
        parsed = str(parse_host(address))
    except (ValueError, DockerException) as error:
        raise BackendUnavailable(f"{address[:200]} is no address of a daemon: {error}", remedy=_WRITE_IT) from error
    if not parsed.startswith(_WAYS):
        raise BackendUnavailable(f"{address[:200]} is an address that nothing here can reach", remedy=_WRITE_IT)
    if address.startswith("ssh://"):
        return _client_over_ssh(version, address, timeout_s)
    variables = {**os.environ, "DOCKER_HOST": address}
    _see_certificates(address)
    if _is_safe(address) and not os.environ.get("DOCKER_TLS_VERIFY"):
        _say_that_nobody_verifies(address)
    with usable_docker_config():
        client = DockerClient.from_env(environment=variables, version=version, timeout=int(timeout_s))
    client.api.trust_env = False  # or REQUESTS_CA_BUNDLE would replace the daemon's own authority
    return client


def _client_over_ssh(version: str, address: str, timeout_s: float) -> DockerClient:
    from docker import DockerClient

    from sandbox.backends.docker.ssh_socket import SshAdapter

    with usable_docker_config():
        client = DockerClient(base_url="http://over-ssh:80", version=version, timeout=int(timeout_s))
    client.api.mount("http://", SshAdapter(address, timeout_s=timeout_s))
    client.api.trust_env = False
    return client


def _is_safe(address: str) -> bool:
    """Whether it is to be spoken to over TLS."""
    asks = os.environ.get("DOCKER_TLS_VERIFY") or os.environ.get("DOCKER_CERT_PATH")
    return address.startswith("tcp://") and bool(asks)


def _see_certificates(address: str) -> None:
    """The SDK would not say which of them is missing, nor where."""
    if not _is_safe(address):
        return
    folder = os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")
    missing = [name for name in CERTIFICATES if not os.path.isfile(os.path.join(folder, name))]
    if missing:
        raise BackendUnavailable(
            f"no safe connection to the Docker daemon at {address}: {folder[:200]} has no {', '.join(missing)}",
            remedy=_CERTIFY,
        )


@cache
def _say_that_nobody_verifies(address: str) -> None:
    """Once; the library below would with each request, and in words that name neither Docker nor what to do."""
    from urllib3.exceptions import InsecureRequestWarning

    host = re.escape(urlsplit(address).hostname or "")
    warnings.filterwarnings(
        "ignore", f"Unverified HTTPS request is being made to host '{host}'", InsecureRequestWarning
    )
    warnings.warn(_NOT_KNOWN.format(address=address[:200]), stacklevel=2)


def _within(seconds: float, question: Callable[[], Answer]) -> Answer:
    """Its answer; `TimeoutError` where that is not there by then, however it comes."""
    answer = Future[Answer]()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="docker", daemon=True).start()
    return answer.result(seconds)


def _spoken(client: DockerClient) -> str:
    from docker.errors import DockerException

    try:
        return str(client.api.version(api_version=False)["ApiVersion"])
    except (KeyError, TypeError, ValueError) as error:
        raise DockerException("what answers there is no Docker daemon") from error


def is_podman(client: DockerClient) -> bool:
    """Whether it is Podman that speaks like Docker."""
    return any("podman" in str(part.get("Name", "")).lower() for part in client.version().get("Components") or ())


def tags_of(image: Mapping[str, Any]) -> list[str]:
    """The names of an image, from what a daemon told of it. Podman puts a registry before those that have none."""
    tags = [str(tag) for tag in image.get("RepoTags") or ()]
    return [tag.removeprefix("docker.io/").removeprefix("localhost/") for tag in tags]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _too_old(address: str, spoken: str) -> BackendUnavailable:
    oldest = ".".join(map(str, OLDEST_API))
    return BackendUnavailable(
        f"the Docker daemon at {address} speaks API {spoken[:20]}, and {oldest} is needed",
        remedy="use Docker 20.10 or later, or Podman 4 or later",
    )


@contextmanager
def translated(doing: str, *, host: str | None = None) -> Iterator[None]:
    """Where what the SDK raises becomes `BackendUnavailable`; `doing` says at what, as in "importing an image"."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        raise _unavailable(error, doing, address_of(host)) from error


def _unavailable(error: BaseException, doing: str, address: str) -> BackendUnavailable:
    from docker.errors import APIError, InvalidVersion, TLSParameterError
    from requests import Timeout
    from requests.exceptions import SSLError

    from sandbox.backends.docker.ssh_socket import NotReached

    causes = list(_causes(error))

    def is_any(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    refusals = [str(cause.explanation or cause) for cause in causes if isinstance(cause, APIError)]
    said = (refusals or [str(error)])[0][:_MOST_TOLD]
    if refusals or _FULL in said:
        return _refused(doing, said)
    if is_any(PermissionError):
        remedy = "run as root or as a member of the group docker, or name a daemon of your own in DOCKER_HOST"
        return BackendUnavailable(f"this user may not use the Docker daemon at {address}", remedy=remedy)
    if is_any(SSLError, TLSParameterError):
        return BackendUnavailable(
            f"no safe connection to the Docker daemon at {address}: {_brief(error)}", remedy=_CERTIFY
        )
    if is_any(NotReached):
        said = next(str(cause) for cause in causes if isinstance(cause, NotReached))
        remedy = "see that `ssh HOST docker version` works there without a password"
        return BackendUnavailable(f"the Docker daemon at {address} is not reached: {said}", remedy=remedy)
    if is_any(FileNotFoundError, ConnectionRefusedError, socket.gaierror):
        why = ": no machine has that name" if is_any(socket.gaierror) else ""
        return BackendUnavailable(f"no Docker daemon answers at {address}{why}", remedy=_start(address))
    if is_any(Timeout, TimeoutError):
        return BackendUnavailable(f"the Docker daemon at {address} took too long for {doing}", remedy=_SEE_WHO)
    if is_any(InvalidVersion):
        return _too_old(address, "of another age")
    is_unsafe = address.startswith("tcp://") and not _is_safe(address)
    remedy = _BE_SAFE if is_unsafe and is_any(ConnectionError) else _start(address)
    return BackendUnavailable(f"{doing} failed with the Docker daemon at {address}: {_brief(error)}", remedy=remedy)


def _start(address: str) -> str:
    """DOCKER_HOST names another only for who was not told this one."""
    return _START_ONE if address == address_of() else _START_THIS_ONE


def _refused(doing: str, said: str) -> BackendUnavailable:
    if _FULL in said:
        return BackendUnavailable(f"the Docker daemon's disk is full: {doing} failed: {said}", remedy=_MAKE_ROOM)
    remedy = _BE_SAFE if _WANTS_TLS in said else _LOOK_THERE
    return BackendUnavailable(f"the Docker daemon refused {doing}: {said}", remedy=remedy)


def _brief(error: BaseException) -> str:
    return str(error)[:_MOST_TOLD]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from; the libraries below keep that in `args` as often as in `__cause__`."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        linked = (found.__cause__, found.__context__, *found.args)
        waiting += [each for each in linked if isinstance(each, BaseException)]
