"""A registry for tests: as much of the Docker registry's protocol as pushing and pulling need, over HTTP on loopback.

Pushed data is in `blobs` and `manifests`. With `refuses` the registry answers as if this user may not push.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


class LocalRegistry:
    """Takes pushes at `address`."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, dict[str, Any]] = {}
        """By `repository:tag`."""
        self.written: dict[str, tuple[str, bytes]] = {}
        """Manifests as they came, by their digest: of what type, and what."""
        self.uploads: dict[str, bytes] = {}
        self.refuses = False
        self._server = _Server(("127.0.0.1", 0), _Answer)
        self._server.registry = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def address(self) -> str:
        return f"localhost:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    registry: LocalRegistry


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.server.registry.refuses:
            said = {"errors": [{"code": "DENIED", "message": "access denied", "detail": "not you"}]}
            self._send(403, json.dumps(said).encode())
            return
        digest = self.path.rpartition("/")[2]
        kind, body = self.server.registry.written.get(digest, ("application/octet-stream", None))
        body = self.server.registry.blobs.get(digest, body)
        if body is None:
            self._send(404 if "/manifests/" in self.path or "/blobs/" in self.path else 200, b"{}")
        else:
            self._send(200, body, headers={"Docker-Content-Digest": digest, "Content-Type": kind})

    def do_HEAD(self) -> None:
        digest = self.path.rpartition("/")[2]
        if digest in self.server.registry.written:
            self.do_GET()
            return
        blob = self.server.registry.blobs.get(digest)
        self._send(404 if blob is None else 200, blob or b"", headers={"Docker-Content-Digest": digest})

    def do_POST(self) -> None:
        if self.server.registry.refuses:
            self.do_GET()
            return
        registry = self.server.registry
        name = f"upload-{len(registry.uploads)}"
        registry.uploads[name] = self._body()
        place = f"{urlsplit(self.path).path.rstrip('/')}/{name}"
        self._send(202, headers={"Location": place, "Range": "0-0"})

    def do_PATCH(self) -> None:
        uploads, path = self.server.registry.uploads, urlsplit(self.path).path
        name = path.rpartition("/")[2]
        uploads[name] += self._body()
        self._send(202, headers={"Location": path, "Range": f"0-{len(uploads[name]) - 1}"})

    def do_PUT(self) -> None:
        registry, url = self.server.registry, urlsplit(self.path)
        before, _, name = url.path.rpartition("/")
        body = self._body()
        if before.endswith("/manifests"):
            repository = before.removeprefix("/v2/").removesuffix("/manifests")
            registry.manifests[f"{repository}:{name}"] = json.loads(body)
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            registry.written[digest] = (self.headers["Content-Type"], body)
        else:
            (digest,) = parse_qs(url.query)["digest"]
            registry.blobs[digest] = registry.uploads.pop(name) + body
        self._send(201, headers={"Location": url.path, "Docker-Content-Digest": digest})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _send(self, status: int, body: bytes = b"", *, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """Tests look into what was pushed."""
