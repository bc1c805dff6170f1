"""A package index for tests: real wheels, served over real HTTP, with all the ways in which real indexes fail.

with LocalIndex(tmp_path / "index") as index:
    index.add("parent", "1.0", requires=["child>=2"])
    index.add("child", "2.0", {"child.py": "answer = 42"})
    settings = index.settings()            # for the engine
    command = ["--index-url", index.url]   # for uv and pip

Fields set the failures, also while the index serves: `index.busy = 2`, `index.form = "garbage"`,
`index.corrupted.add(wheel.name)`. `index.asked` lists the requests. No build tool makes the wheels, so a test can make
malformed ones: `make_wheel(folder, "evil", "1.0", extra={"../escaped": b""})`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import html
import io
import json
import socket
import threading
import weakref
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal
from urllib.parse import unquote

from packaging.utils import canonicalize_name, parse_wheel_filename

from sandbox.environments.indexes.client import IndexClient, Patience
from sandbox.environments.indexes.proxy import open_index_proxy
from sandbox.environments.indexes.settings import Index, IndexSettings

Form = Literal["json", "html", "garbage", "half", "silent"]
Files = Mapping[str, str | bytes]

JSON_PAGE: Final = "application/vnd.pypi.simple.v1+json"
_DRIPS_EVERY_S: Final = 0.05
_EPOCH: Final = (2020, 1, 1, 0, 0, 0)


def make_wheel(  # noqa: PLR0913  (all that may be odd about a wheel)
    folder: Path,
    name: str,
    version: str,
    files: Files | None = None,
    *,
    requires: Iterable[str] = (),
    requires_python: str | None = None,
    tag: str = "py3-none-any",
    extra: Files | None = None,
    programs: Collection[str] = (),
) -> Path:
    """Make a wheel with these files, or with a module named like it, and return its path.

    `programs` are the files with execute permission. `extra` files keep their exact names in the archive and are left
    out of `RECORD`. Equal arguments make equal bytes.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    contents: dict[str, str | bytes] = dict({f"{name.replace('-', '_')}.py": ""} if files is None else files)
    contents[f"{stem}.dist-info/METADATA"] = _metadata(name, version, requires, requires_python)
    contents[f"{stem}.dist-info/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {str(tag.endswith('any')).lower()}\nTag: {tag}\n"
    )
    contents[f"{stem}.dist-info/RECORD"] = _record(contents, f"{stem}.dist-info/RECORD")
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**contents, **(extra or {})}.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = (0o755 if path in programs else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return wheel


def _metadata(name: str, version: str, requires: Iterable[str], requires_python: str | None) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    return "\n".join(lines) + "\n"


def _record(contents: Files, itself: str) -> str:
    lines = []
    for path, content in contents.items():
        data = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{itself},,\n"


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextlib.contextmanager
def opened_client(settings: IndexSettings, folder: Path, *, patience: Patience | None = None) -> Iterator[IndexClient]:
    """The engine's client, and the egress proxy that it goes over, on a loop of its own; its socket is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        opening = open_index_proxy(settings, folder)
        proxy = asyncio.run_coroutine_threadsafe(opening.__aenter__(), loop).result()
        client = IndexClient(settings, proxy.path, patience=patience)
        try:
            yield client
        finally:
            client.close()
            asyncio.run_coroutine_threadsafe(opening.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class LocalIndex:
    """A server of the wheels of a folder: at `url` a page for each package, at `links_url` a single page."""

    def __init__(self, folder: Path, *, form: Form = "json", login: tuple[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.form = form
        """Form of the pages; `silent` keeps the client waiting until the index is closed."""
        self.login = login
        """User and password that the index requires; without them, the index is open to all."""
        self.busy = 0
        """Number of further requests answered with 503; negative for all."""
        self.breaks_off = 0
        """Number of further files that break off in the middle."""
        self.drips: str | None = None
        """Beginning of the paths whose answers the index sends a byte at a time."""
        self.redirects: dict[str, str] = {}
        """Redirects: a path and its target."""
        self.corrupted: set[str] = set()
        """Names of files sent with bytes that differ from the page's hashes."""
        self.yanked: dict[str, str] = {}
        """Names of yanked files, and the reasons."""
        self.upload_times: dict[str, str] = {}
        self.strays: dict[str, dict[str, str]] = {}
        """Entries of a package's page besides its wheels: names of files, and addresses of any kind."""
        self.tells_hashes = True
        self.tells_metadata = False
        """Whether the metadata of wheels is served without the wheel (PEP 658)."""
        self.asked: list[str] = []
        """Method and path of each answered request."""
        self.authorizations: list[str | None] = []
        self.ranges: list[str | None] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Answer)
        self._server.index = self
        self._server.connections = weakref.WeakSet()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> LocalIndex:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Refuse connections from here on, like an index that is down."""
        if not self.closing.is_set():
            self.closing.set()
            self._server.shutdown()
            self._server.hang_up()
            self._server.server_close()
            self._thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"{self.root}/simple"

    @property
    def links_url(self) -> str:
        return f"{self.root}/links"

    def file_url(self, wheel: Path) -> str:
        return f"{self.root}/files/{wheel.name}"

    def settings(self) -> IndexSettings:
        """Return the settings of a machine that knows this index alone."""
        return IndexSettings(indexes=(Index(self.url, self.login),), timeout_s=5.0)

    def add(
        self,
        name: str,
        version: str,
        files: Files | None = None,
        *,
        requires: Iterable[str] = (),
        requires_python: str | None = None,
        tag: str = "py3-none-any",
    ) -> Path:
        """Publish a wheel."""
        return make_wheel(
            self.folder, name, version, files, requires=requires, requires_python=requires_python, tag=tag
        )

    def wheels(self, name: str | None = None) -> list[Path]:
        """Return the wheels of a package, or all wheels."""
        return sorted(wheel for wheel in self.folder.glob("*.whl") if name in (None, _package_of(wheel)))

    def write_as_folder(self, root: Path) -> str:
        """Write the same packages as an index of plain files, and return its `file:` address."""
        for wheel in self.wheels():
            page = root / _package_of(wheel) / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            files = f"../../{self.folder.name}"
            links = [_anchor(self, each, wheel_url=f"{files}/{each.name}") for each in self.wheels(_package_of(wheel))]
            page.write_text("<!DOCTYPE html><html><body>" + "<br>".join(links) + "</body></html>")
        return root.as_uri()


def _package_of(wheel: Path) -> str:
    return canonicalize_name(wheel.name.partition("-")[0])


class _Server(ThreadingHTTPServer):
    index: LocalIndex
    connections: weakref.WeakSet[socket.socket]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        """Stop answering, also on connections that clients keep open for their next request."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up, because some tests are about them."""


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: _Server

    def do_GET(self) -> None:
        index, path = self.server.index, unquote(self.path)
        index.asked.append(f"{self.command} {path}")
        if path.startswith("http://"):  # as a proxy, the index answers for every host
            path = "/" + path.removeprefix("http://").partition("/")[2]
        index.authorizations.append(self.headers.get("Authorization"))
        index.ranges.append(self.headers.get("Range"))
        if index.form == "silent":
            index.closing.wait(60)
            self.close_connection = True
        elif index.busy:
            index.busy -= 1
            self._send(503, b"busy")
        elif index.login is not None and self.headers.get("Authorization") != _basic(index.login):
            self._send(401, b"who are you?", headers={"WWW-Authenticate": "Basic"})
        elif path in index.redirects:
            self._send(302, b"", headers={"Location": index.redirects[path]})
        elif path.startswith("/simple/"):
            self._send_page(path.removeprefix("/simple/").strip("/"))
        elif path.startswith("/links"):
            self._send(200, _html_page(index, index.wheels()), content_type="text/html")
        else:
            self._send_file(path.removeprefix("/files/"))

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *_: object) -> None:
        """Print nothing; tests look into `asked`."""

    def _send_page(self, name: str) -> None:
        index = self.server.index
        wheels = index.wheels(name)
        if index.form == "garbage":
            self._send(200, b"<html><body><a href='/login'>please log in</a></body></html>", content_type="text/html")
        elif not wheels and name not in index.strays:
            self._send(404, b"no such package")
        elif index.form == "html":
            self._send(200, _html_page(index, wheels, name), content_type="text/html; charset=utf-8")
        else:
            page = _json_page(index, name, wheels)
            self._send(200, page if index.form == "json" else page[: len(page) // 2], content_type=JSON_PAGE)

    def _send_file(self, name: str) -> None:
        index = self.server.index
        wheel = index.folder / name.removesuffix(".metadata")
        if "/" in name or not wheel.is_file():
            self._send(404, b"no such file")
        elif name.endswith(".metadata"):
            self._send(200, _metadata_of(wheel))
        else:
            content = wheel.read_bytes()
            self._send_part(content[::-1] if name in index.corrupted else content)

    def _send_part(self, content: bytes) -> None:
        headers = {"Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, content, headers=headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else len(content) - int(last)
        end = int(last) + 1 if first and last else len(content)
        part = content[start:end]
        self._send(206, part, headers={**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"})

    def _send(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/octet-stream",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.index.breaks_off and "/files/" in self.path:
            self.server.index.breaks_off -= 1
            body, self.close_connection = body[: len(body) // 2], True
        if self.server.index.drips and self.path.startswith(self.server.index.drips):
            self._drip(body)
        else:
            self.wfile.write(body)

    def _drip(self, body: bytes) -> None:
        for byte in body:
            if self.server.index.closing.wait(_DRIPS_EVERY_S):
                return
            self.wfile.write(bytes([byte]))


def _basic(login: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()


def _json_page(index: LocalIndex, name: str, wheels: list[Path]) -> bytes:
    files = []
    for wheel in wheels:
        file: dict[str, object] = {"filename": wheel.name, "url": f"../../files/{wheel.name}", "hashes": {}}
        if index.tells_hashes:
            file["hashes"] = {"sha256": sha256_of(wheel)}
        if index.tells_metadata:
            file["core-metadata"] = {"sha256": hashlib.sha256(_metadata_of(wheel)).hexdigest()}
        if wheel.name in index.upload_times:
            file["upload-time"] = index.upload_times[wheel.name]
        file |= {"size": wheel.stat().st_size, "yanked": index.yanked.get(wheel.name, False)}
        files.append(file)
    strays = index.strays.get(name, {})
    files += [{"filename": stray, "url": url, "hashes": {}, "core-metadata": True} for stray, url in strays.items()]
    return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": files}).encode()


def _html_page(index: LocalIndex, wheels: list[Path], name: str = "") -> bytes:
    links = [_anchor(index, wheel, wheel_url=f"/files/{wheel.name}") for wheel in wheels]
    links += [f'<a href="{html.escape(url)}">{stray}</a>' for stray, url in index.strays.get(name, {}).items()]
    return f"<!DOCTYPE html><html><body>{'<br>'.join(links)}</body></html>".encode()


def _anchor(index: LocalIndex, wheel: Path, *, wheel_url: str) -> str:
    marks = {"href": wheel_url + (f"#sha256={sha256_of(wheel)}" if index.tells_hashes else "")}
    if wheel.name in index.yanked:
        marks["data-yanked"] = index.yanked[wheel.name]
    if index.tells_metadata:
        marks["data-core-metadata"] = f"sha256={hashlib.sha256(_metadata_of(wheel)).hexdigest()}"
    text = " ".join(f'{name}="{html.escape(mark)}"' for name, mark in marks.items())
    return f"<a {text}>{wheel.name}</a>"


def _metadata_of(wheel: Path) -> bytes:
    name, version, _, _ = parse_wheel_filename(wheel.name)
    with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as archive:
        return archive.read(f"{name.replace('-', '_')}-{version}.dist-info/METADATA")
