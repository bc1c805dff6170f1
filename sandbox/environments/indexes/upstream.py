"""What the engine itself asks of indexes: pages and files, over HTTP or from this machine's folders.

An index gets a few attempts when it does not answer, breaks off, or says that it is busy (5xx, 429); whatever else it
says holds at once (see `answers`). Every wait has an end, and so has the number of attempts.

Only `http` and `https` are spoken, no redirect leads anywhere else, and none leads from `https` back to `http`.
`file:` addresses are followed only where this machine's own settings or a page on this machine name them, and addresses
near this machine only where those settings or an index that is near itself do (see `nearby`). That is why whatever is
asked for is asked for in the name of someone: the index, or the page of links, of the settings that listed it.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sandbox.environments.indexes.answers import Absent, Fault, Reply
from sandbox.environments.indexes.deadlines import Deadline, in_time
from sandbox.environments.indexes.keyring_logins import with_password
from sandbox.environments.indexes.local_packages import PIECE_BYTES, local_links, local_page, open_local
from sandbox.environments.indexes.nearby import NearAddress, is_near
from sandbox.environments.indexes.pages import ACCEPTED, MOST_PAGE_BYTES, ListedFile, MalformedPage, parse_page
from sandbox.environments.indexes.sessions import missing_file, open_session
from sandbox.environments.indexes.settings import Index, IndexSettings, local_path, split_credentials

if TYPE_CHECKING:
    import requests
    import tenacity

_MOST_WRAPPINGS: Final = 64
_CONNECT_S: Final = 15.0
_OK: Final = (200, 206)
_PASSED_ON: Final = (405, 416)
_GONE: Final = (404, 410)
_BUSY: Final = 429
_REFUSED: Final = (401, 403)
_PROXY_REFUSED: Final = 407
_GIVE_LOGIN: Final = "give one in the index's address, in netrc, or by keyring, as pip and uv take it"
_CORRECT_LOGIN: Final = "correct the login where it is given: in the index's address, in netrc, or in the keyring"
_CORRECT_PROXY: Final = "correct the login in the proxy's address, in pip's or uv's settings or in HTTPS_PROXY"
_CORRECT_FILES: Final = "correct what names it: PIP_CERT, SSL_CERT_FILE, REQUESTS_CA_BUNDLE, or a setting of pip or uv"
_CORRECT_ADDRESS: Final = "correct the address in pip's or uv's settings, in HTTPS_PROXY or in HTTP_PROXY"
_EXCEPTION: Final = re.compile(r"\*?\.?(?P<name>[^:\[\]]+|\[?[0-9a-f:]+\]?)(:(?P<port>\d+))?")
_KEPT_HEADERS: Final = ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified")


class _Busy(Fault):
    """Worth another attempt."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long an index is asked before it counts as down."""

    attempts: int = 4
    first_wait_s: float = 0.2
    longest_wait_s: float = 4.0
    trying_s: float = 45.0
    """No further attempt begins after this."""
    page_s: float = 60.0
    """For a page, from the first byte asked to the last one answered; and for a file to begin."""
    slowest_bytes_per_s: int = 8 << 10
    """A file that comes more slowly on the whole is cut off."""
    file_s: float = 3600.0
    """For a file of unknown size."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an index answers, up to its headers, and until when the rest has to be here."""

    response: requests.Response
    deadline: Deadline


class Upstream:
    """Asks the indexes of these settings; any thread may use it, and it is closed once."""

    def __init__(self, settings: IndexSettings, *, patience: Patience | None = None) -> None:
        self._settings = settings
        self._patience = patience or Patience()
        self._sessions: dict[bool, requests.Session] = {}
        """By whether they are for public addresses only."""
        self._near: set[str] = set()
        """Who was found to be near."""
        self._opening = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Hang up. Who is still waiting for an answer hangs up when it has come, and asks for nothing more."""
        with self._opening:
            self._is_closed = True
            for session in self._sessions.values():
                session.close()

    def page(self, index: Index, name: str) -> tuple[ListedFile, ...]:
        """The files that this index has of a package; its name is a normalized one."""
        root = local_path(index.url)
        if root is not None:
            return local_page(root, name)
        if self._settings.offline:
            raise Absent
        return self._remote_page(f"{index.url}/{name}/", accept=ACCEPTED, listed_by=index.url)

    def links(self, location: str) -> tuple[ListedFile, ...]:
        """The files in a folder, or linked to by a page. A folder that is not there holds none, as with pip."""
        path = local_path(location)
        if path is not None:
            return local_links(path)
        return () if self._settings.offline else self._remote_page(location, accept="text/html", listed_by=location)

    @contextmanager
    def open(
        self,
        url: str,
        *,
        listed_by: str,
        method: str = "GET",
        part: str | None = None,
        within_s: float = math.inf,
    ) -> Iterator[Reply]:
        """The file at an address, or the part of it that a `Range` header asks for; cut off when it comes too slowly.

        `listed_by` is the index or the page of links that named it; the address itself where this machine did.
        """
        path = local_path(url)
        if path is not None:
            if local_path(listed_by) is None:
                raise Fault("it names a file of this machine", remedy="use an index that does not")
            with open_local(path, part=part) as reply:
                yield reply
            return
        if self._settings.offline:
            raise Absent
        wanted = {"Accept-Encoding": "identity", **({"Range": part} if part else {})}
        answer = self._answer(url, method=method, headers=wanted, listed_by=listed_by)
        try:
            headers = answer.response.headers
            answer.deadline.move(min(self._time_for_file(headers.get("Content-Length", "")), within_s))
            kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
            if "Content-Encoding" in headers:
                kept.pop("Content-Length", None)
            yield Reply(answer.response.status_code, kept, _pieces(answer))
        finally:
            self._end(answer)

    def _time_for_file(self, length: str) -> float:
        patience = self._patience
        if not length.isdigit():
            return patience.file_s
        return patience.page_s + int(length) / patience.slowest_bytes_per_s

    def _remote_page(self, url: str, *, accept: str, listed_by: str) -> tuple[ListedFile, ...]:
        """A page that breaks off is asked for again."""
        return self._retrying()(self._read_page, url, accept=accept, listed_by=listed_by)

    def _read_page(self, url: str, *, accept: str, listed_by: str) -> tuple[ListedFile, ...]:
        answer = self._send(url, method="GET", headers={"Accept": accept}, listed_by=listed_by)
        try:
            body = _body(answer)
            content_type, address = answer.response.headers.get("Content-Type", ""), answer.response.url
        finally:
            self._end(answer)
        try:
            return parse_page(body, content_type=content_type, address=address)
        except MalformedPage as problem:
            raise Fault(str(problem)) from None

    def _answer(self, url: str, *, method: str, headers: Mapping[str, str], listed_by: str) -> _Answer:
        return self._retrying()(self._send, url, method=method, headers=headers, listed_by=listed_by)

    def _retrying(self) -> tenacity.Retrying:
        import tenacity

        patience = self._patience
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Busy),
            stop=tenacity.stop_after_attempt(patience.attempts) | tenacity.stop_after_delay(patience.trying_s),
            wait=tenacity.wait_random_exponential(multiplier=patience.first_wait_s, max=patience.longest_wait_s),
            reraise=True,
        )

    def _send(self, url: str, *, method: str, headers: Mapping[str, str], listed_by: str) -> _Answer:
        """One attempt, up to the headers of what is answered; who is near itself is found out where it matters."""
        ask = partial(self._ask, url, method=method, headers=headers)
        if listed_by in self._near:
            return ask(is_public_only=False)
        try:
            return ask(is_public_only=True)
        except NearAddress:
            if not is_near(listed_by):
                raise
        self._near.add(listed_by)
        return ask(is_public_only=False)

    def _ask(self, url: str, *, method: str, headers: Mapping[str, str], is_public_only: bool) -> _Answer:
        from requests.auth import HTTPBasicAuth

        address, login = split_credentials(url)
        login = with_password(login or self._settings.credentials_for(address), address, self._settings)
        silence = self._settings.timeout_s
        if address.startswith("https:") and (gone := missing_file(self._settings)):
            raise Fault(
                f"what this machine names for TLS, {gone}, is not there",
                reach="index",
                remedy=_CORRECT_FILES,
            )
        deadline, response = Deadline(self._patience.page_s), None
        try:
            with in_time(deadline), _named_faults(silence), deadline.asking():
                response = self._asking(is_public_only=is_public_only).request(
                    method,
                    address,
                    headers=dict(headers),
                    auth=HTTPBasicAuth(login[0].encode(), login[1].encode()) if login else None,
                    proxies=_proxies_for(address, self._settings.proxies),
                    timeout=(min(_CONNECT_S, silence), silence),
                    stream=True,
                )
        except BaseException:
            deadline.stop()
            if response is not None:  # whose headers were cut off
                response.close()
            raise
        answer = _Answer(response, deadline)
        problem = _problem_of(response.status_code, has_login=login is not None and bool(login[1]))
        if problem is not None:
            _read_the_rest(response)
            self._end(answer)
            raise problem
        return answer

    def _end(self, answer: _Answer) -> None:
        """Its connection serves the next request; but a session that was closed meanwhile would keep it for good."""
        answer.response.close()
        answer.deadline.stop()
        if self._is_closed:
            self.close()

    def _asking(self, *, is_public_only: bool) -> requests.Session:
        with self._opening:
            if self._is_closed:
                raise Fault("nobody waits for its answer any more")
            if is_public_only not in self._sessions:
                self._sessions[is_public_only] = open_session(self._settings, is_public_only=is_public_only)
            return self._sessions[is_public_only]


@contextmanager
def _named_faults(silence: float) -> Iterator[None]:
    """Turns what `requests` raises into a fault that says what happened in our own words."""
    import ssl

    import requests
    import urllib3.exceptions

    try:
        yield
    except Fault:
        raise
    except requests.exceptions.SSLError as problem:
        raise Fault(_tls_problem(problem), reach="index") from None
    except requests.exceptions.ProxyError:
        raise _Busy("the proxy does not let us through", reach="index") from None
    except requests.exceptions.Timeout:
        raise _Busy(f"no answer within {silence:g} s", reach="index") from None
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as problem:
        raise _Busy(f"no connection: {_cause(problem)}", reach="index") from None
    except requests.exceptions.TooManyRedirects:
        raise Fault("it redirects without end") from None
    except (requests.exceptions.InvalidURL, urllib3.exceptions.LocationParseError):
        raise Fault("its address, or its proxy's, cannot be used", reach="index", remedy=_CORRECT_ADDRESS) from None
    except ssl.SSLError:
        raise Fault("the certificates to use for it cannot be read", reach="index", remedy=_CORRECT_FILES) from None
    except (OSError, ValueError) as problem:
        raise Fault(f"it cannot be asked: {type(problem).__name__}") from None


def _tls_problem(problem: BaseException) -> str:
    """Why there is no connection by TLS; OpenSSL's own name for it stands where that says more than we know."""
    import ssl

    names = [str(error.reason) for error in _wrapped_in(problem) if isinstance(error, ssl.SSLError) and error.reason]
    if any("CERTIFICATE_VERIFY_FAILED" in name or "CA_NOT" in name for name in names):
        return "its certificate is not trusted; name its authority by PIP_CERT or SSL_CERT_FILE"
    if any("CERTIFICATE_REQUIRED" in name or "HANDSHAKE_FAILURE" in name for name in names):
        return "it wants to be shown a certificate; name one by PIP_CLIENT_CERT or SSL_CLIENT_CERT"
    if not names:
        return (
            "it hangs up on us; if it wants to be shown a certificate, name one by PIP_CLIENT_CERT or SSL_CLIENT_CERT"
        )
    return f"it does not speak TLS as we do: {names[0].replace('_', ' ').lower()}"


def _cause(problem: BaseException) -> str:
    """The system's own words for what went wrong, found below the wrappings; those repeat addresses."""
    said = (error.strerror for error in _wrapped_in(problem) if isinstance(error, OSError) and error.strerror)
    return next(said, "the other side hung up")


def _wrapped_in(problem: BaseException) -> Iterator[BaseException]:
    """It, and all that it was raised for."""
    seen: list[object] = [problem]
    for error in seen:  # grows while it is walked
        if isinstance(error, BaseException):
            yield error
            if len(seen) < _MOST_WRAPPINGS:
                seen += [error.__cause__, error.__context__, getattr(error, "reason", None), *error.args]


def _problem_of(status: int, *, has_login: bool) -> Exception | None:
    if status in _OK or status in _PASSED_ON:
        return None
    if status in _GONE:
        return Absent()
    if status >= 500 or status == _BUSY:
        return _Busy(f"it answers {status}", reach="index")
    if status == _PROXY_REFUSED:
        return Fault(f"it answers {status}: the proxy refuses our login, or wants one", remedy=_CORRECT_PROXY)
    if status in _REFUSED and has_login:
        return Fault(f"it answers {status}: it refuses the login", remedy=_CORRECT_LOGIN)
    if status in _REFUSED:
        return Fault(f"it answers {status}: it wants a login", remedy=_GIVE_LOGIN)
    return Fault(f"it answers {status}")


def _read_the_rest(response: requests.Response) -> None:
    """Reads what little is left, so that the connection serves the next request."""
    length = response.headers.get("Content-Length", "")
    with contextlib.suppress(OSError):
        if length.isdigit() and int(length) <= PIECE_BYTES:
            _ = response.content


def _pieces(answer: _Answer) -> Iterator[bytes]:
    """What has come so far, however little: whoever reads can tell then that it takes too long."""
    from urllib3.exceptions import HTTPError

    raw = answer.response.raw
    with in_time(answer.deadline):
        try:
            if raw.chunked:
                yield from answer.response.iter_content(PIECE_BYTES)
            else:
                yield from iter(lambda: raw.read1(PIECE_BYTES, decode_content=True), b"")
        except (OSError, HTTPError) as problem:
            raise _Busy(f"it broke off: {_cause(problem)}", reach="attempt") from None


def _body(answer: _Answer) -> bytes:
    body = bytearray()
    for piece in _pieces(answer):
        body += piece
        if len(body) > MOST_PAGE_BYTES:
            raise Fault(f"its page has more than {MOST_PAGE_BYTES} bytes")
    return bytes(body)


def _proxies_for(url: str, proxies: Mapping[str, str]) -> dict[str, str]:
    parts = urlsplit(url)
    excepted = [text.strip() for text in proxies.get("no", "").split(",")]
    if any(_is_excepted(parts.hostname or "", parts.port, text) for text in excepted if text):
        return {}
    return {scheme: proxy for scheme, proxy in proxies.items() if scheme != "no"}


def _is_excepted(host: str, port: int | None, exception: str) -> bool:
    """Whether an entry of `no_proxy` means this host: `*`, a name and all below it, with a port or not, a network."""
    if exception == "*" or "/" in exception:
        return exception == "*" or _is_in_network(host, exception)
    found = _EXCEPTION.fullmatch(exception.lower())
    if found is None or (found["port"] and found["port"] != str(port)):
        return False
    name = found["name"].strip("[]")
    return host == name or host.endswith(f".{name}")


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
