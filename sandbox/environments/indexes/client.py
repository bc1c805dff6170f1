"""The client that downloads files of indexes: by address, over the engine's egress proxy, each within a deadline.

`Absent` means that the index answers and has no such file. `Fault` means that the index does not do its part; a fault
with a `remedy` needs a change of this machine's settings, one that is `retryable` may pass. A fault's text is the
engine's own and repeats nothing that an index or a proxy sent.

Redirects lead to `http` and `https` only, and never from `https` back to `http`. A login goes only to its own origin.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import math
import os
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from sandbox.environments.indexes.proxy import FORBIDDEN, connect_to
from sandbox.environments.indexes.settings import IndexSettings, local_path, split_credentials

PIECE_BYTES: Final = 256 << 10
_MAX_REDIRECTS: Final = 10
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_GONE: Final = (404, 410)
_BUSY: Final = 429
_LOGIN_REFUSED: Final = (401, 403)
_PROXY_REFUSED: Final = 407
_REFUSED_BY_EGRESS: Final = "x-sandbox-egress"
_GIVE_LOGIN: Final = "give a login in the index's address or in netrc"
_CORRECT_LOGIN: Final = "correct the login in the index's address or in netrc"
CORRECT_FILES: Final = "correct PIP_CERT, SSL_CERT_FILE, REQUESTS_CA_BUNDLE or pip's setting `cert`"


class Absent(Exception):
    """The index answers, and has no such file."""


class Fault(Exception):
    """The index does not do its part."""

    def __init__(self, reason: str, *, retryable: bool = False, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may take."""

    answer_s: float = 60.0
    """From asking to the end of the headers."""
    min_bytes_per_s: int = 8 << 10
    """A file that comes more slowly on the whole is cut off."""
    file_s: float = 3600.0
    """For a file of unknown size."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A file that is about to be read."""

    length: int | None
    pieces: Iterator[bytes] = field(repr=False)


class IndexClient:
    """Downloads over the proxy at this socket; any thread may use it."""

    def __init__(self, settings: IndexSettings, proxy: Path, *, patience: Patience | None = None) -> None:
        self.settings = settings
        self._proxy = proxy
        self._patience = patience or Patience()
        self._idle: defaultdict[tuple[str, int], list[_Connection]] = defaultdict(list)
        self._is_closed = False

    def close(self) -> None:
        """Close all connections that no download uses."""
        self._is_closed = True
        for connections in list(self._idle.values()):
            while connections:
                connections.pop().end()

    @contextmanager
    def open(self, url: str, *, within_s: float = math.inf) -> Iterator[Reply]:
        """Ask for the file at this address; it is cut off after `within_s` seconds, or if it comes too slowly."""
        path = local_path(url)
        if path is not None:
            with _open_local(path) as reply:
                yield reply
            return
        if self.settings.offline:
            raise Absent
        connection, answer = self._follow(url, within_s)
        try:
            length = answer.length
            connection.allow(min(self._time_for(length), within_s))
            yield Reply(length, connection.pieces(answer))
        finally:
            self._finish(connection, answer)

    def _time_for(self, length: int | None) -> float:
        patience = self._patience
        return patience.file_s if length is None else patience.answer_s + length / patience.min_bytes_per_s

    def _follow(self, url: str, within_s: float) -> tuple[_Connection, http.client.HTTPResponse]:
        for _ in range(_MAX_REDIRECTS):
            connection, answer, has_login = self._ask(url, within_s)
            target = answer.getheader("Location") if answer.status in _REDIRECTS else None
            if target is None:
                problem = _problem(answer, has_login=has_login)
                if problem is None:
                    return connection, answer
                connection.end()
                raise problem
            connection.end()
            target = urljoin(url, target)
            if urlsplit(target).scheme not in ("https", urlsplit(url).scheme):
                raise Fault("it redirects to an address that is not followed")
            url = target
        raise Fault("it redirects without end")

    def _ask(self, url: str, within_s: float) -> tuple[_Connection, http.client.HTTPResponse, bool]:
        address, login = split_credentials(url)
        login = login or self.settings.credentials_for(address)
        parts = urlsplit(address)
        target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        headers = {"User-Agent": "sandbox-engine", "Accept-Encoding": "identity", "Host": parts.netloc}
        if login is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        if parts.scheme != "https":  # the proxy takes one request with a whole address of each connection
            target = f"http://{parts.netloc}{target}"
            headers["Connection"] = "close"
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        try:
            with connection.named_faults():
                connection.allow(min(self._patience.answer_s, within_s))
                connection.request("GET", target, headers=headers)
                answer = connection.answer()
        except BaseException:
            connection.end()
            raise
        return connection, answer, bool(login and login[1])

    def _connection(self, scheme: str, host: str, port: int | None) -> _Connection:
        number = port or (443 if scheme == "https" else 80)
        if scheme != "https":
            return _Connection(host, number, proxy=self._proxy, silence_s=self.settings.timeout_s)
        with suppress(IndexError):
            return self._idle[host, number].pop()
        context = tls_context(self.settings, checks=not self.settings.is_unchecked(host, number))
        return _Connection(host, number, proxy=self._proxy, silence_s=self.settings.timeout_s, context=context)

    def _finish(self, connection: _Connection, answer: http.client.HTTPResponse) -> None:
        """Keep the connection for the next file, if this one was read to its end."""
        connection.allow(math.inf)
        if connection.is_tunnel and answer.isclosed() and not answer.will_close and not self._is_closed:
            self._idle[connection.host, connection.port].append(connection)
            return
        connection.end()


class _Connection(http.client.HTTPConnection):
    """A connection over the proxy, cut off by a timer wherever a thread waits for it.

    A socket's timeout holds for each read, so a server that sends a byte now and then is never cut off by it.
    """

    def __init__(
        self, host: str, port: int, *, proxy: Path, silence_s: float, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(host, port, timeout=silence_s)
        self.is_tunnel = context is not None
        self._proxy = proxy
        self._silence_s = silence_s
        self._context = context
        self._wire: socket.socket | None = None
        self._answer: http.client.HTTPResponse | None = None
        self._timer: threading.Timer | None = None
        self._allowed_s = math.inf
        self._is_over = False

    def connect(self) -> None:
        """Connect to the proxy, and through it by TLS."""
        plug = connect_to(self._proxy)
        try:
            self._wire = plug.dup()  # TLS moves the descriptor to another object
            plug.settimeout(self._silence_s)
            if self._context is not None:
                self._open_tunnel(plug)
                plug = self._context.wrap_socket(plug, server_hostname=self.host)
        except BaseException:
            plug.close()
            raise
        self.sock = plug

    def end(self) -> None:
        """Close all of it. `close` is called by `getresponse` as well, when the body is still to be read."""
        self.allow(math.inf)
        self.close()
        for each in (self._answer, self._wire):
            if each is not None:
                each.close()
        self._answer = self._wire = None

    def answer(self) -> http.client.HTTPResponse:
        """Wait for the head of the answer."""
        self._answer = self.getresponse()
        return self._answer

    def allow(self, seconds: float) -> None:
        """Cut the connection off after that time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._allowed_s = seconds
        if seconds < math.inf:
            self._timer = threading.Timer(max(seconds, 0), self._cut_off)
            self._timer.daemon = True
            self._timer.start()

    def pieces(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """The body as it comes."""
        left = answer.length
        with self.named_faults(broken="it broke off"):
            while piece := answer.read1(PIECE_BYTES):
                left = None if left is None else left - len(piece)
                yield piece
            if left:
                raise http.client.IncompleteRead(b"")

    @contextmanager
    def named_faults(self, *, broken: str = "no connection") -> Iterator[None]:
        """Turn whatever goes wrong with the connection into a fault in our own words."""
        try:
            yield
            if self._is_over:  # a head or a body that was cut off may look like a whole one
                raise TimeoutError
        except ssl.SSLCertVerificationError:
            reason = "its certificate is not trusted; name its authority by PIP_CERT or SSL_CERT_FILE"
            raise Fault(reason, remedy=CORRECT_FILES) from None
        except (OSError, http.client.HTTPException) as problem:
            if self._is_over:
                reason = f"it sends too slowly: its answer was not here within {self._allowed_s:.3g} s"
                raise Fault(reason) from None
            if isinstance(problem, TimeoutError):
                raise Fault(f"no answer within {self._silence_s:g} s", retryable=True) from None
            if isinstance(problem, ssl.SSLError):
                raise Fault("it does not speak TLS as we do", retryable=True) from None
            cause = problem.strerror if isinstance(problem, OSError) else None
            raise Fault(f"{broken}: {cause or 'the other side hung up'}", retryable=True) from None
        except ValueError as problem:
            raise Fault(f"it cannot be asked: {type(problem).__name__}") from None

    def _open_tunnel(self, plug: socket.socket) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        plug.sendall(f"CONNECT {host}:{self.port} HTTP/1.1\r\nHost: {host}:{self.port}\r\n\r\n".encode())
        with contextlib.closing(http.client.HTTPResponse(plug, method="CONNECT")) as answer:
            answer.begin()
            if answer.status != http.client.OK:
                raise refused_by_egress(answer.getheader(_REFUSED_BY_EGRESS, ""), self.host)

    def _cut_off(self) -> None:
        self._is_over = True
        with suppress(OSError, AttributeError):
            self._wire.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]  # None where nothing is connected yet


def refused_by_egress(reason: str, host: str) -> Fault:
    """Return the fault for what the egress proxy refused, by the proxy's own word for it."""
    if reason in FORBIDDEN:
        what = "a private address" if reason == "address" else "a port that is not the web's"
        return Fault(
            f"it leads to {host}, which is at {what} and is no configured index",
            remedy="use an index whose files are on public addresses or on its own host and port",
        )
    if reason == "proxy":
        return Fault("this machine's own proxy does not let us through", retryable=True)
    if reason in ("name", "unreachable", "slow"):
        return Fault(f"no connection to {host}", retryable=True)
    return Fault(f"{host} is not reached: {reason or 'refused'}")


def missing_certificates(settings: IndexSettings) -> Path | None:
    """Return the file of authorities that is named and does not exist."""
    named = settings.certificates
    return named if named is not None and not os.path.exists(named) else None


def tls_context(settings: IndexSettings, *, checks: bool) -> ssl.SSLContext:
    """Return the context for TLS; reading authorities takes longer than most answers, so it is kept."""
    named = settings.certificates
    if missing_certificates(settings):
        raise Fault(f"the certificates of this machine are missing: {named}", remedy=CORRECT_FILES)
    try:
        return _context(named, named.stat().st_mtime_ns if named else 0, checks=checks)
    except OSError:
        raise Fault("the certificates to use for it cannot be read", remedy=CORRECT_FILES) from None


@lru_cache(maxsize=8)
def _context(authorities: Path | None, _version: int, *, checks: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not checks:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authorities is not None:
        is_folder = authorities.is_dir()
        context.load_verify_locations(
            cafile=None if is_folder else authorities, capath=authorities if is_folder else None
        )
    else:
        context.load_default_certs()
        with suppress(ImportError):  # comes with docker's client; a host may have no authorities of its own
            import certifi

            context.load_verify_locations(certifi.where())
    return context


@contextmanager
def _open_local(path: Path) -> Iterator[Reply]:
    try:
        with path.open("rb") as file:
            yield Reply(os.fstat(file.fileno()).st_size, iter(lambda: file.read(PIECE_BYTES), b""))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise Absent from None


def _problem(answer: http.client.HTTPResponse, *, has_login: bool) -> Exception | None:
    status, refused = answer.status, answer.getheader(_REFUSED_BY_EGRESS)
    if status == http.client.OK:
        return None
    if refused is not None:
        return refused_by_egress(refused, "its host")
    if status in _GONE:
        return Absent()
    if status >= http.client.INTERNAL_SERVER_ERROR or status == _BUSY:
        return Fault(f"it answers {status}", retryable=True)
    if status == _PROXY_REFUSED:
        return Fault(f"it answers {status}: the proxy refuses our login", remedy="correct the login in HTTPS_PROXY")
    if status in _LOGIN_REFUSED:
        return login_refused(status, has_login=has_login)
    return Fault(f"it answers {status}")


def login_refused(status: int, *, has_login: bool) -> Fault:
    """Return the fault of an index that wants another login, or any."""
    what = "it refuses the login" if has_login else "it wants a login"
    return Fault(f"it answers {status}: {what}", remedy=_CORRECT_LOGIN if has_login else _GIVE_LOGIN)
