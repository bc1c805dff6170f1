"""An index that sends a byte now and then is cut off at a deadline, in whatever part of its answer it does so."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.builds.wheels import fetch_wheels
from sandbox.environments.indexes.answers import Absent, Fault
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.indexes.upstream import Patience, Upstream
from sandbox.environments.lock import LockedPackage
from sandbox.errors import IndexUnavailable

DEADLINE_S: Final = 0.3
EVERY_S: Final = 0.02
HURRIED: Final = Patience(page_s=DEADLINE_S, file_s=DEADLINE_S, slowest_bytes_per_s=1 << 30)
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.pypi.simple.v1+json\r\n"
_LONG: Final = b"Content-Length: 100000\r\n\r\n"
SLOW_HEADS: Final = {
    "status": b"HTTP/1.1 ",
    "header": b"HTTP/1.1 200 OK\r\nX-Slow: ",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n" + _LONG,
}
SLOW_BODIES: Final = {
    "body": _HEAD + _LONG,
    "body_without_length": _HEAD + b"\r\n",
    "chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
    "chunk_size": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;",
}
RECORD_OF_TLS: Final = b"\x16\x03\x03\x40\x00"


@contextmanager
def _trickling(first: bytes) -> Iterator[str]:
    """Where a server sends `first` at once, and then a byte now and then for as long as it is asked."""
    closing = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(first)
            while not closing.wait(EVERY_S):
                connection.sendall(b"0")

    def accept() -> None:
        while not closing.is_set():
            with contextlib.suppress(TimeoutError):
                threads.append(threading.Thread(target=serve, args=(server.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(EVERY_S)
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            closing.set()
            for thread in threads:
                thread.join()


@contextmanager
def _upstream(place: str, scheme: str = "http") -> Iterator[tuple[Upstream, Index]]:
    index = Index(f"{scheme}://{place}/simple")
    settings = IndexSettings(indexes=(index,), timeout_s=20, unchecked_hosts=frozenset({"127.0.0.1"}))
    upstream = Upstream(settings, patience=HURRIED)
    try:
        yield upstream, index
    finally:
        upstream.close()


def _is_cut_off(ask: Callable[[], object]) -> None:
    began = time.monotonic()
    with pytest.raises(Fault, match=r"sends too slowly: its answer was not here within 0\.3 s"):
        ask()
    assert time.monotonic() - began >= DEADLINE_S


@pytest.mark.parametrize("first", [*SLOW_HEADS.values(), *SLOW_BODIES.values()], ids=[*SLOW_HEADS, *SLOW_BODIES])
def test_a_page_is_cut_off_at_its_deadline(first: bytes) -> None:
    with _trickling(first) as place, _upstream(place) as (upstream, index):
        _is_cut_off(lambda: upstream.page(index, "small"))


@pytest.mark.parametrize("first", [*SLOW_HEADS.values(), *SLOW_BODIES.values()], ids=[*SLOW_HEADS, *SLOW_BODIES])
def test_a_file_is_cut_off_at_its_deadline(first: bytes) -> None:
    def read() -> None:
        with upstream.open(f"{index.url}/x.whl", listed_by=index.url) as reply:
            for _ in reply.pieces:
                pass

    with _trickling(first) as place, _upstream(place) as (upstream, index):
        _is_cut_off(read)


@pytest.mark.parametrize(("status", "expected"), [("404 Not Found", Absent), ("403 Forbidden", Fault)])
def test_a_refusal_counts_although_its_text_is_cut_off(status: str, expected: type[Exception]) -> None:
    first = f"HTTP/1.1 {status}\r\n".encode() + _LONG
    with (
        _trickling(first) as place,
        _upstream(place) as (upstream, index),
        pytest.raises(expected, match=r"^$|it wants"),
    ):
        upstream.page(index, "small")


def test_a_tls_handshake_is_cut_off_at_its_deadline() -> None:
    with _trickling(RECORD_OF_TLS) as place, _upstream(place, "https") as (upstream, index):
        _is_cut_off(lambda: upstream.page(index, "small"))


def test_an_answer_by_a_proxy_is_cut_off_at_its_deadline() -> None:
    with _trickling(_HEAD + _LONG) as place:
        settings = IndexSettings(indexes=(Index("http://index.test/simple"),), proxies={"http": f"http://{place}"})
        upstream = Upstream(settings, patience=HURRIED)
        try:
            _is_cut_off(lambda: upstream.page(settings.indexes[0], "small"))
        finally:
            upstream.close()


def test_a_wheel_that_comes_too_slowly_is_an_index_that_is_down(tmp_path: Path) -> None:
    wheel = LockedPackage(name="small", version="1.0", wheel="small-1.0-py3-none-any.whl", sha256="0" * 64, size=1000)
    with _trickling(_HEAD + _LONG) as place:
        url = f"http://{place}/files/{wheel.wheel}"
        with pytest.raises(IndexUnavailable, match=rf"{place}.*not here within 0\.3 s") as caught:
            fetch_wheels(
                [wheel],
                settings=IndexSettings(timeout_s=20),
                origins={wheel.sha256: url},
                store=tmp_path,
                patience=HURRIED,
            )
    assert caught.value.remedy
    assert [*(tmp_path / ".partial").iterdir()] == []


def test_a_deadline_leaves_no_thread() -> None:
    before = threading.active_count()
    with _trickling(_HEAD + _LONG) as place, _upstream(place) as (upstream, index):
        _is_cut_off(lambda: upstream.page(index, "small"))
    assert threading.active_count() == before
