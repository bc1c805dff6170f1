"""The failures of the Docker daemon, of the SDK and of the libraries below it, in the words of `BackendUnavailable`.

No other module interprets an exception of these libraries. `_failures` is one table of (exceptions, message, remedy);
the first row that fits the error, or any of its causes, wins.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from sandbox.backends.container.docker.address import find_url, uses_tls
from sandbox.errors import BackendUnavailable

OLDEST_API: Final = (1, 41)
CORRECT_CERTIFICATES: Final = "check that DOCKER_CERT_PATH holds ca.pem, cert.pem and key.pem of that daemon"

_MAX_QUOTED: Final = 500
_FULL: Final = "no space left on device"
_WANTS_TLS: Final = "to an HTTPS server"
_USE_TLS: Final = "if that daemon speaks TLS only, set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to its certificates"
_OLD: Final = "the Docker daemon at {address} speaks API {spoken}, and {oldest} is needed"
_UPDATE: Final = "use Docker 20.10 or later, or Podman 4 or later"


@contextmanager
def translate_failures(doing: str, *, host: str | None = None) -> Iterator[None]:
    """Turn failures of the SDK into `BackendUnavailable`; `doing` is a phrase such as "importing an image"."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        raise _translate(error, doing, find_url(host)) from error


def too_old(address: str, spoken: str) -> BackendUnavailable:
    """Return the error for a daemon whose API is too old."""
    return BackendUnavailable(
        _OLD.format(address=address, spoken=spoken[:20], oldest=".".join(map(str, OLDEST_API))), remedy=_UPDATE
    )


@dataclass(frozen=True, slots=True)
class _Failure:
    kinds: tuple[type[BaseException], ...]
    message: str
    remedy: str | Callable[[str], str]
    """The remedy, or a function that returns it for an address."""


@cache
def _failures() -> tuple[_Failure, ...]:
    from docker.errors import InvalidVersion, TLSParameterError
    from requests import Timeout
    from requests.exceptions import SSLError

    from sandbox.backends.container.docker.ssh_socket import NotReached

    return (
        _Failure(
            (PermissionError,),
            "this user may not use the Docker daemon at {address}",
            "run as root or as a member of the group docker, or name a daemon of your own in DOCKER_HOST",
        ),
        _Failure(
            (SSLError, TLSParameterError),
            "no safe connection to the Docker daemon at {address}: {error}",
            CORRECT_CERTIFICATES,
        ),
        _Failure(
            (NotReached,),
            "the Docker daemon at {address} is not reached: {cause}",
            "check that `ssh HOST docker version` works there without a password",
        ),
        _Failure(
            (socket.gaierror,),
            "no Docker daemon answers at {address}: no machine has that name",
            _start_it,
        ),
        _Failure(
            (FileNotFoundError, ConnectionRefusedError),
            "no Docker daemon answers at {address}",
            _start_it,
        ),
        _Failure(
            (Timeout, TimeoutError),
            "the Docker daemon at {address} took too long for {doing}",
            "check that a Docker daemon listens there, and read its own log",
        ),
        _Failure((InvalidVersion,), _OLD, _UPDATE),
        _Failure(
            (ConnectionError,),
            "{doing} failed with the Docker daemon at {address}: {error}",
            lambda address: _USE_TLS if address.startswith("tcp://") and not uses_tls(address) else _start_it(address),
        ),
        _Failure(
            (BaseException,),
            "{doing} failed with the Docker daemon at {address}: {error}",
            _start_it,
        ),
    )


def _translate(error: BaseException, doing: str, address: str) -> BackendUnavailable:
    from docker.errors import APIError

    causes = list(_causes(error))
    refusals = [str(cause.explanation or cause) for cause in causes if isinstance(cause, APIError)]
    said = (refusals or [str(error)])[0][:_MAX_QUOTED]
    if refusals or _FULL in said:
        return _refusal(doing, said)
    failure, cause = next(
        (failure, cause) for failure in _failures() for cause in causes if isinstance(cause, failure.kinds)
    )
    message = failure.message.format(
        address=address,
        doing=doing,
        error=str(error)[:_MAX_QUOTED],
        cause=str(cause)[:_MAX_QUOTED],
        spoken="of another version",
        oldest=".".join(map(str, OLDEST_API)),
    )
    return BackendUnavailable(
        message, remedy=failure.remedy if isinstance(failure.remedy, str) else failure.remedy(address)
    )


def _refusal(doing: str, said: str) -> BackendUnavailable:
    if _FULL in said:
        return BackendUnavailable(
            f"the Docker daemon's disk is full: {doing} failed: {said}",
            remedy="free space there, for example with `sandbox image prune --older-than 7d`",
        )
    remedy = _USE_TLS if _WANTS_TLS in said else "read the daemon's own log"
    return BackendUnavailable(f"the Docker daemon refused {doing}: {said}", remedy=remedy)


def _start_it(address: str) -> str:
    if address == find_url():
        return "start Docker, or name a daemon that runs in DOCKER_HOST"
    # The caller named this daemon, so DOCKER_HOST would not name another one.
    return (
        "start Docker there, or name another daemon where this one is named: as container.host in config.toml, or by "
        "the program that asks"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        # requests and urllib3 keep a cause in `args` as often as in `__cause__`.
        linked = (found.__cause__, found.__context__, *found.args)
        waiting += [each for each in linked if isinstance(each, BaseException)]
