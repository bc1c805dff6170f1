"""The gateway: all the network that a resolving box has.

The box gets one socket into the engine. Behind it are pages and files of the indexes that the machine is set up for,
and nothing else: the box names an index by its number, a package by its name, and a file by a token that it was given
on a page in this session. It never sees an index's address, proxy or login, and cannot ask for an address of its own:

    /<n>/simple/<name>/              a package's files on the n-th index, always as JSON (PEP 691)
    /links/<n>/                      the n-th folder or page of links, as a flat page
    /<n>/file/<token>/<filename>     a file of either, whole or a part of it; its metadata with `.metadata` behind

What an index answers is told apart for whoever must explain a failure: *no such package* is a 404, and resolution goes
on to the next index; *not an index's answer* (down, busy, garbage, wrong login, whatever nobody foresaw) is a 502,
which ends it, and is written down in `faults`. An index that was given up on is not asked again in this session, so a
resolver's own retries cost nothing, and the time that a dead index takes is bounded by our patience alone.

Pages of packages that are known to be asked for are asked for before the box does (see `pages_ahead`).

Connections are served by threads of the engine, a bounded number of them. A client that keeps silent is dropped.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from sandbox.environments.indexes.answers import Absent, Fault, IndexFault, Reply
from sandbox.environments.indexes.local_packages import PIECE_BYTES, digest_of
from sandbox.environments.indexes.pages import JSON_PAGE, ListedFile, render_links, render_page
from sandbox.environments.indexes.pages_ahead import PagesAhead
from sandbox.environments.indexes.settings import IndexSettings, local_path, redacted, split_credentials
from sandbox.environments.indexes.upstream import Patience, Upstream
from sandbox.errors import SandboxError

MOST_CONNECTIONS: Final = 64
MOST_PAGES: Final = 5000
_SILENCE_S: Final = 20.0
_CLOSING_S: Final = 2.0
_STOPPED_WITHIN_S: Final = 0.01
_LONGEST_ADDRESS: Final = 100
_PAGE: Final = re.compile(r"/(\d{1,4})/simple/([a-z0-9]+(?:-[a-z0-9]+)*)/?")
_LINKS: Final = re.compile(r"/links/(\d{1,4})/?")
_FILE: Final = re.compile(r"/(\d{1,4})/file/([0-9a-f]{32})/([^/]{1,800})")
_PART: Final = re.compile(r"bytes=(\d{1,15}-\d{0,15}|-\d{1,15})")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a file's address in the box stands for."""

    index: int | None
    """The number of the index; none for a folder or a page of links."""
    url: str
    """The real address, without login or query."""
    filename: str
    sha256: str | None
    size: int | None


@dataclass(frozen=True, slots=True)
class _Handed:
    """A file that the box may ask for."""

    number: int
    file: ListedFile


class Gateway:
    """Serves these indexes at `socket`, a file in a folder that only the caller and the box can reach."""

    def __init__(self, settings: IndexSettings, folder: Path, *, patience: Patience | None = None) -> None:
        self.socket = folder / "gateway.sock"
        self._settings = settings
        self._upstream = Upstream(settings, patience=patience)
        self._lock = threading.Lock()
        self._handed: dict[str, _Handed] = {}
        self._given_up: dict[str, Fault] = {}
        self._faults: dict[str, IndexFault] = {}
        self._pages: set[str] = set()
        self._ahead = PagesAhead(self._read_page, indexes=len(settings.indexes), goes_on=settings.goes_on)
        self._server: _Server | None = None

    def __enter__(self) -> Gateway:
        server = _Server(self.socket, self)
        try:
            server.start()
        except BaseException:
            server.server_close()
            raise
        self._server = server
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ahead.stop()
        if self._server is not None:
            self._server.stop()
        self._upstream.close()
        self.socket.unlink(missing_ok=True)

    @property
    def faults(self) -> list[IndexFault]:
        """What was asked of an index in vain and stays unanswered, in the order in which that was found."""
        with self._lock:
            return list(dict.fromkeys(self._faults.values()))

    def origin(self, url_seen_in_box: str) -> Origin | None:
        """What the box means by a file's address; none if this gateway never told it that. May hash a local file."""
        handed = self._handed_out(url_seen_in_box)
        if handed is None:
            return None
        file = handed.file
        real = split_credentials(file.url)[0].partition("?")[0]
        index = handed.number if handed.number < len(self._settings.indexes) else None
        sha256 = file.sha256 or _digest_if_local(file)
        return Origin(index=index, url=real, filename=file.filename, sha256=sha256, size=file.size)

    def yanked(self, url_seen_in_box: str) -> bool | str:
        """Whether its index has taken that file back, or why, if it says so."""
        handed = self._handed_out(url_seen_in_box)
        return handed is not None and handed.file.yanked

    def _handed_out(self, url_seen_in_box: str) -> _Handed | None:
        found = _FILE.fullmatch(urlsplit(url_seen_in_box).path)
        return self._handed.get(found[2]) if found else None

    def hand_out(self, url: str, *, sha256: str) -> str:
        """The address in the box of one file that a requirement names itself; the box asks for no other."""
        filename = unquote(urlsplit(url).path.rpartition("/")[2])
        number = len(self._settings.indexes) + len(self._settings.find_links)
        return self._handing_out(number)(ListedFile(filename, url, hashes={"sha256": sha256}))

    def expect(self, names: Iterable[str]) -> None:
        """The box is about to ask for the pages of these packages, in their normalized names."""
        self._ahead.begin(names)

    def page(self, number: int, name: str) -> bytes:
        """A package's page as the box sees it."""
        if number >= len(self._settings.indexes):
            raise Absent
        with self._noting_faults(self._settings.indexes[number].url, what=name):
            self._count_page(f"{number}/{name}")
            return self._ahead.page(number, name)

    def _read_page(self, number: int, name: str) -> bytes:
        files = self._upstream.page(self._settings.indexes[number], name)
        return render_page(name, files, address_of=self._handing_out(number))

    def links(self, number: int) -> bytes:
        """A flat page as the box sees it."""
        if number >= len(self._settings.find_links):
            raise Absent
        location = self._settings.find_links[number]
        with self._noting_faults(location, what=""):
            files = self._upstream.links(location)
        return render_links(files, address_of=self._handing_out(number + len(self._settings.indexes)))

    @contextlib.contextmanager
    def file(self, token: str, filename: str, *, method: str, part: str | None) -> Iterator[Reply]:
        """A file that was handed out, about to be read."""
        handed = self._handed.get(token)
        if handed is None or filename.removesuffix(".metadata") != handed.file.filename:
            raise Absent
        url = handed.file.url
        if filename != handed.file.filename:
            url = _metadata_address(handed.file)
        listed_by = self._listed_by(handed)
        with (
            self._noting_faults(url, what=""),
            self._upstream.open(url, listed_by=listed_by, method=method, part=part) as reply,
        ):
            yield reply

    def _listed_by(self, handed: _Handed) -> str:
        """The index or the page of links that has it; its own address where a requirement names that."""
        places = (*(index.url for index in self._settings.indexes), *self._settings.find_links)
        return places[handed.number] if handed.number < len(places) else handed.file.url

    def _handing_out(self, number: int) -> Callable[[ListedFile], str]:
        """Gives a listed file its address in the box; it is the same whenever it is listed again."""

        def address(file: ListedFile) -> str:
            token = sha256(f"{number}\0{file.url}".encode()).hexdigest()[:32]
            self._handed[token] = _Handed(number, file)
            return f"/{number}/file/{token}/{quote(file.filename)}"

        return address

    def _count_page(self, key: str) -> None:
        with self._lock:
            self._pages.add(key)
            if len(self._pages) > MOST_PAGES:
                raise Fault(f"more than {MOST_PAGES} packages were asked for", reach="attempt")

    @contextlib.contextmanager
    def _noting_faults(self, url: str, *, what: str) -> Iterator[None]:
        """Writes a fault down; one that would only repeat itself is from then on repeated without asking."""
        place = redacted(url)
        asked = f"{place} {what}"
        with self._lock:
            known = self._given_up.get(place) or self._given_up.get(asked)
        if known is not None:
            raise Fault(known.reason, reach=known.reach, remedy=known.remedy)
        try:
            with _told_as_faults():
                yield
        except Fault as fault:
            with self._lock:
                package = None if fault.reach == "index" else what
                self._faults.setdefault(asked, IndexFault(place, fault.reason, fault.remedy, package or None))
                if fault.reach != "attempt":
                    self._given_up[place if fault.reach == "index" else asked] = fault
            raise
        with self._lock:
            self._faults.pop(asked, None)


class _BoxGone(Exception):
    """The box hung up while it was answered: no index is to blame."""


@contextlib.contextmanager
def _told_as_faults() -> Iterator[None]:
    """Whatever else goes wrong with an index is its fault too; only what we say ourselves is repeated."""
    try:
        yield
    except (Absent, Fault, _BoxGone):
        raise
    except SandboxError as error:
        raise Fault(error.message, remedy=error.remedy or "correct the settings of pip or uv") from error
    except Exception as error:
        raise Fault(f"it cannot be asked, or understood: {type(error).__name__}") from error


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A bounded number of threads, one for each connection, all of which end when it is stopped."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, place: Path, gateway: Gateway) -> None:
        self.gateway = gateway
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._open: dict[socket.socket, threading.Thread] = {}
        self._open_lock = threading.Lock()
        self._is_stopping = False
        self._place = place
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_STOPPED_WITHIN_S,), name="gateway", daemon=True
        )
        super().__init__(str(place), _Connection)

    def server_bind(self) -> None:
        """Bound by way of its folder's descriptor where the path is longer than a socket's address may be."""
        if len(os.fsencode(self._place)) <= _LONGEST_ADDRESS:
            self.socket.bind(str(self._place))
        else:
            folder = os.open(self._place.parent, os.O_PATH | os.O_DIRECTORY)
            try:
                self.socket.bind(f"/proc/self/fd/{folder}/{self._place.name}")
            finally:
                os.close(folder)
        self._place.chmod(0o666)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Hang up on everyone. A thread that waits for an index ends with that wait; nobody waits for it."""
        self._is_stopping = True
        self._hang_up()
        self.shutdown()
        self._thread.join()
        self.server_close()
        for thread in self._hang_up():
            thread.join(_CLOSING_S)

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._room.acquire(timeout=0.1):
            if self._is_stopping:
                self.shutdown_request(request)
                return
        thread = threading.Thread(target=self._serve, args=(request, client_address), name="gateway", daemon=True)
        with self._open_lock:
            self._open[request] = thread
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                self._open.pop(request, None)
            self._room.release()

    def _hang_up(self) -> list[threading.Thread]:
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            return list(self._open.values())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is its client's affair."""


class _Connection(BaseHTTPRequestHandler):
    """One connection of the box, request after request."""

    protocol_version = "HTTP/1.1"
    server_version = "gateway"
    sys_version = ""
    timeout = _SILENCE_S
    server: _Server

    def do_GET(self) -> None:
        self._has_begun = False
        try:
            self._route(self.path.partition("?")[0])
        except Absent:
            self._answer(404)
        except Fault as fault:
            if not self._has_begun:
                self._answer(502, fault.reason.encode())
            self.close_connection = True  # an answer that has begun can only be broken off, as the index did

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *_: Any) -> None:
        """Nothing a box asks for is written anywhere."""

    def _route(self, path: str) -> None:
        gateway = self.server.gateway
        if found := _PAGE.fullmatch(path):
            self._answer(200, gateway.page(int(found[1]), found[2]), content_type=JSON_PAGE)
        elif found := _LINKS.fullmatch(path):
            self._answer(200, gateway.links(int(found[1])), content_type="text/html; charset=utf-8")
        elif found := _FILE.fullmatch(path):
            part = self.headers.get("Range", "")
            wanted = part if _PART.fullmatch(part) else None
            with gateway.file(found[2], unquote(found[3]), method=self.command, part=wanted) as reply:
                self._pass_on(reply)
        else:
            raise Absent

    def _answer(self, status: int, body: bytes = b"", *, content_type: str = "text/plain; charset=utf-8") -> None:
        headers = {"Content-Type": content_type, "Content-Length": str(len(body))}
        starts = range(0, len(body), PIECE_BYTES)
        self._pass_on(Reply(status, headers, (body[start : start + PIECE_BYTES] for start in starts)))

    def _pass_on(self, reply: Reply) -> None:
        self._has_begun = True
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in reply.headers:
            self.send_header("Connection", "close")
        self._tell_box(self.end_headers)
        if self.command != "HEAD":
            for piece in reply.pieces:
                self._tell_box(partial(self.wfile.write, piece))

    def _tell_box(self, send: Callable[[], object]) -> None:
        try:
            send()
        except OSError as error:
            raise _BoxGone from error


def _metadata_address(file: ListedFile) -> str:
    """Where a file's metadata is (PEP 658), if its page says that it is anywhere."""
    if file.core_metadata is False:
        raise Absent
    address, _, query = file.url.partition("?")
    return f"{address}.metadata" + (f"?{query}" if query else "")


def _digest_if_local(file: ListedFile) -> str | None:
    path = local_path(file.url)
    try:
        return None if path is None else digest_of(path)
    except OSError:
        return None
