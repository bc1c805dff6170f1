"""The client that downloads from indexes: where it goes, whom it believes, and how long it waits.

Real servers; connections go over the engine's own egress proxy, as in a build.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from sandbox.environments.builds.wheels import fetch_wheels
from sandbox.environments.indexes.client import Absent, Fault, IndexClient, Patience
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.lock import LockedPackage
from sandbox.errors import IndexUnavailable
from tests.indexes import LocalIndex, opened_client

SECRET: Final = "hunter2"
FILE: Final = "child-2.0-py3-none-any.whl"
DEADLINE_S: Final = 0.3
EVERY_S: Final = 0.02
HURRIED: Final = Patience(answer_s=DEADLINE_S, file_s=DEADLINE_S, min_bytes_per_s=1 << 30)
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
_LONG: Final = b"Content-Length: 100000\r\n\r\n"
SLOW: Final = {
    "status": b"HTTP/1.1 ",
    "header": b"HTTP/1.1 200 OK\r\nX-Slow: ",
    "body": _HEAD + _LONG,
    "body without length": _HEAD + b"\r\n",
    "chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
    "chunk size": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;",
}
RECORD_OF_TLS: Final = b"\x16\x03\x03\x40\x00"
NEAR: Final = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "LOCALHOST", "0.0.0.0", "127.0.0.1."),
    *("169.254.169.254", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "168.63.129.16"),
    *("[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as index:
        index.add("child", "2.0")
        yield index


@pytest.fixture
def file(index: LocalIndex) -> str:
    return f"{index.root}/files/{FILE}"


def _read(client: IndexClient, url: str) -> bytes:
    with client.open(url) as reply:
        return b"".join(reply.pieces)


def _refusal(settings: IndexSettings, folder: Path, url: str, *, patience: Patience | None = None) -> Fault:
    with opened_client(settings, folder, patience=patience) as client, pytest.raises(Fault) as refused:
        _read(client, url)
    return refused.value


def test_a_file_of_a_configured_index_is_read_at_a_private_address(
    index: LocalIndex, file: str, tmp_path: Path
) -> None:
    with opened_client(index.settings(), tmp_path / "p") as client:
        assert _read(client, file) == (index.folder / FILE).read_bytes()


@pytest.mark.parametrize("host", NEAR)
def test_a_private_address_of_another_host_is_refused(host: str, index: LocalIndex, tmp_path: Path) -> None:
    """The URL has a port of the web, because the client looks up no host at another port."""
    fault = _refusal(index.settings(), tmp_path / "p", f"http://{host}/files/{FILE}")
    assert fault.remedy or "no connection" in fault.reason
    assert index.asked == []


def test_another_port_of_a_configured_host_is_refused(index: LocalIndex, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        _refusal(index.settings(), tmp_path / "p", f"http://127.0.0.1:{other.getsockname()[1]}/{FILE}")
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_redirect_to_a_private_address_is_refused(index: LocalIndex, file: str, tmp_path: Path) -> None:
    index.redirects[f"/files/{FILE}"] = f"http://169.254.169.254/{FILE}"
    fault = _refusal(index.settings(), tmp_path / "p", file)
    assert "a private address" in fault.reason


def test_a_name_that_leads_to_a_private_address_is_refused(
    index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = socket.getaddrinfo

    def names(host: Any, *arguments: Any, **options: Any) -> Any:
        return looked_up("127.0.0.1" if host == "files.test" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", names)
    fault = _refusal(index.settings(), tmp_path / "p", f"http://files.test/{FILE}")
    assert "a private address" in fault.reason
    assert index.asked == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "FILE:///etc/passwd"])
def test_a_redirect_leads_nowhere_but_to_http(target: str, index: LocalIndex, file: str, tmp_path: Path) -> None:
    index.redirects[f"/files/{FILE}"] = target
    assert _refusal(index.settings(), tmp_path / "p", file).reason == "it redirects to an address that is not followed"


def test_endless_redirects_are_bounded(index: LocalIndex, file: str, tmp_path: Path) -> None:
    index.redirects[f"/files/{FILE}"] = f"/files/{FILE}"
    assert _refusal(index.settings(), tmp_path / "p", file).reason == "it redirects without end"


def test_a_login_goes_to_its_own_origin_alone(index: LocalIndex, file: str, tmp_path: Path) -> None:
    with LocalIndex(tmp_path / "other") as other:
        other.add("child", "2.0")
        index.login = ("bob", SECRET)
        index.redirects[f"/files/{FILE}"] = f"{other.root}/files/{FILE}"
        indexes = (Index(index.url, index.login), Index(other.url))
        with opened_client(replace(index.settings(), indexes=indexes), tmp_path / "p") as client:
            _read(client, file)
        assert index.authorizations[-1] is not None
        assert other.authorizations == [None]


def test_a_wrong_login_is_a_fault_that_does_not_repeat_it(index: LocalIndex, file: str, tmp_path: Path) -> None:
    index.login = ("bob", "right")
    settings = replace(index.settings(), indexes=(Index(index.url, ("bob", SECRET)),))
    fault = _refusal(settings, tmp_path / "p", file)
    assert fault.reason == "it answers 401: it refuses the login"
    assert "correct the login" in str(fault.remedy)


def test_a_missing_file_differs_from_a_busy_index(index: LocalIndex, file: str, tmp_path: Path) -> None:
    with opened_client(index.settings(), tmp_path / "p") as client, pytest.raises(Absent):
        _read(client, f"{index.root}/files/gone.whl")
    index.busy = -1
    fault = _refusal(index.settings(), tmp_path / "q", file)
    assert (fault.reason, fault.retryable) == ("it answers 503", True)


def test_offline_nothing_is_asked(index: LocalIndex, file: str, tmp_path: Path) -> None:
    settings = replace(index.settings(), offline=True)
    with opened_client(settings, tmp_path / "p") as client, pytest.raises(Absent):
        _read(client, file)
    assert index.asked == []


def test_this_machines_own_proxy_is_dialled(index: LocalIndex, tmp_path: Path) -> None:
    settings = IndexSettings(indexes=(Index("http://index.test/simple"),), proxies={"http": index.root}, timeout_s=5)
    with opened_client(settings, tmp_path / "p") as client:
        assert _read(client, f"http://index.test/files/{FILE}") == (index.folder / FILE).read_bytes()
    assert index.asked == [f"GET http://index.test/files/{FILE}"]


@pytest.mark.parametrize("no", ["127.0.0.1", "127.0.0.0/8", "*", "127.0.0.1:{port}"])
def test_some_hosts_are_reached_without_the_proxy(no: str, index: LocalIndex, file: str, tmp_path: Path) -> None:
    exception = no.replace("{port}", index.root.rpartition(":")[2])
    settings = replace(index.settings(), proxies={"http": "http://127.0.0.1:9", "no": exception})
    with opened_client(settings, tmp_path / "p") as client:
        assert _read(client, file)


def test_a_long_path_serves_as_well(index: LocalIndex, file: str, tmp_path: Path) -> None:
    with opened_client(index.settings(), tmp_path / ("x" * 120)) as client:
        assert _read(client, file)


@contextlib.contextmanager
def _trickling(first: bytes) -> Iterator[str]:
    """Where a server sends `first` at once, and then a byte now and then for as long as the client listens."""
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


def _settings(place: str, scheme: str = "http") -> IndexSettings:
    index = Index(f"{scheme}://{place}/simple")
    return IndexSettings(indexes=(index,), timeout_s=20, unchecked_hosts=frozenset({"127.0.0.1"}))


@pytest.mark.parametrize("part", SLOW)
def test_a_file_is_cut_off_at_its_deadline_in_every_part_of_its_answer(part: str, tmp_path: Path) -> None:
    with _trickling(SLOW[part]) as place:
        began = time.monotonic()
        fault = _refusal(_settings(place), tmp_path, f"http://{place}/{FILE}", patience=HURRIED)
        assert fault.reason == "it sends too slowly: its answer was not here within 0.3 s"
        assert time.monotonic() - began >= DEADLINE_S


def test_a_tls_handshake_is_cut_off_at_its_deadline(tmp_path: Path) -> None:
    with _trickling(RECORD_OF_TLS) as place:
        fault = _refusal(_settings(place, "https"), tmp_path, f"https://{place}/{FILE}", patience=HURRIED)
        assert "sends too slowly" in fault.reason


def test_a_wheel_that_comes_too_slowly_is_an_index_that_is_down(tmp_path: Path) -> None:
    wheel = LockedPackage(name="small", version="1.0", wheel="small-1.0-py3-none-any.whl", sha256="0" * 64, size=1000)
    with _trickling(_HEAD + _LONG) as place:
        url = f"http://{place}/files/{wheel.wheel}"
        with (
            opened_client(_settings(place), tmp_path / "p", patience=HURRIED) as client,
            pytest.raises(IndexUnavailable, match=rf"{place}.*not here within 0\.3 s") as caught,
        ):
            fetch_wheels([wheel], client=client, origins={wheel.sha256: url}, store=tmp_path / "store")
    assert caught.value.remedy
    assert [*(tmp_path / "store" / ".partial").iterdir()] == []


def test_no_connection_and_no_thread_is_left(index: LocalIndex, file: str, tmp_path: Path) -> None:
    before = threading.active_count()
    with opened_client(index.settings(), tmp_path / "p") as client:
        _read(client, file)
    port = int(index.root.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    assert not [each for each in found if port in each.raddr[1:] and each.status == "ESTABLISHED"]
    assert threading.active_count() <= before + 1  # the index's own thread may still be on its last answer
