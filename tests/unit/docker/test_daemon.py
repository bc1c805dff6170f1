"""Errors tell apart daemons that are missing, forbidden, too old, or no daemons at all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sandbox.backends.container.docker import client
from sandbox.backends.container.docker.address import find_url
from sandbox.backends.container.docker.client import connect
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.errors import BackendUnavailable
from tests.unprivileged import without_privileges

pytestmark = pytest.mark.slow  # the SDK takes half a second to import


class _Daemon(BaseHTTPRequestHandler):
    """A server that answers every request like a daemon's `/version`."""

    answer: ClassVar[bytes] = b""
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


@contextmanager
def daemon_that_says(answer: bytes, *, status: int = 200) -> Iterator[str]:
    told = type("Told", (_Daemon,), {"answer": answer, "status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), told) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_daemon_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_daemon_is_reported_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match=r"no Docker daemon answers at unix://.*start Docker.*container\.host"):
        connect(f"unix://{tmp_path}/none.sock")


def test_the_daemon_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/chosen.sock")
    with pytest.raises(BackendUnavailable, match=r"chosen\.sock.*a daemon that runs in DOCKER_HOST"):
        connect()


def test_a_closed_port_is_reported_with_a_remedy() -> None:
    with daemon_that_says(b"") as url:
        pass
    with pytest.raises(BackendUnavailable, match=r"no Docker daemon answers at tcp://"):
        connect(url)


def test_an_unknown_host_is_reported() -> None:
    with pytest.raises(BackendUnavailable, match=r"at tcp://nowhere\.invalid:2375: no machine has that name"):
        connect("tcp://nowhere.invalid:2375")


@pytest.mark.root
def test_a_forbidden_socket_is_reported_with_a_remedy(tmp_path: Path) -> None:
    import docker.errors  # noqa: F401 - whom the tests then are may be unable to read it

    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "closed.sock"))
        closed.listen()
        (tmp_path / "closed.sock").chmod(0o600)
        with (
            without_privileges(tmp_path / "closed.sock"),
            pytest.raises(BackendUnavailable, match=r"may not use.*group docker"),
        ):
            connect(f"unix://{tmp_path}/closed.sock")


@pytest.mark.parametrize("spoken", ["1.40", "1.12"])
def test_an_old_daemon_is_reported_with_a_remedy(spoken: str) -> None:
    with (
        daemon_that_says(json.dumps({"ApiVersion": spoken}).encode()) as url,
        pytest.raises(BackendUnavailable, match=r"1\.41 is needed.*Docker 20\.10 or later"),
    ):
        connect(url)


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}"])
def test_a_server_that_is_no_daemon_is_reported(answer: bytes) -> None:
    with daemon_that_says(answer) as url, pytest.raises(BackendUnavailable, match="tcp://") as refused:
        connect(url)
    assert refused.value.message.endswith("the listener is no Docker daemon")


def test_a_refusal_quotes_the_daemon_up_to_a_bound() -> None:
    with (
        daemon_that_says(json.dumps({"message": "no: " + "x" * 9000}).encode(), status=500) as url,
        pytest.raises(BackendUnavailable, match="refused connecting: no: xxx") as raised,
    ):
        connect(url)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("url", ["bogus", "ftp://127.0.0.1", "tcp://127.0.0.1:http", "ssh://host/path"])
def test_a_malformed_address_is_reported(url: str) -> None:
    with pytest.raises(BackendUnavailable, match=f"{url} is no address of a daemon.*write it like unix://"):
        connect(url)


@pytest.mark.parametrize("url", ["npipe://x", "npipe:////./pipe/docker_engine"])
def test_an_address_for_another_system_is_reported(url: str) -> None:
    with pytest.raises(BackendUnavailable, match=f"{url} is an address that nothing here can reach.*write it like"):
        connect(url)


def test_a_full_disk_is_reported_with_a_remedy() -> None:
    said = json.dumps({"message": "write /var/lib/docker/x: no space left on device"}).encode()
    with (
        daemon_that_says(said, status=500) as url,
        pytest.raises(BackendUnavailable, match=r"disk is full: connecting failed: write /var.*free space there"),
    ):
        connect(url)


def test_errors_of_ssh_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\necho me@elsewhere: Permission denied >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(BackendUnavailable, match=r"ssh://me@elsewhere is not reached: me@elsewhere: Perm.*password"):
        connect("ssh://me@elsewhere")


def test_a_missing_ssh_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="is not reached: there is no program `ssh` here"):
        connect("ssh://elsewhere")


def test_missing_certificates_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match=f"{tmp_path} has no ca.pem, cert.pem, key.pem"):
        connect("tcp://127.0.0.1:1")


def test_an_incomplete_set_of_certificates_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    for name in ("ca.pem", "key.pem"):
        (tmp_path / name).touch()
    with pytest.raises(BackendUnavailable, match=rf"no safe connection .* {tmp_path} has no cert\.pem \("):
        connect("tcp://127.0.0.1:1")


def test_a_daemon_that_hangs_up_without_tls_is_reported_with_a_remedy() -> None:
    with (
        listener_that(lambda caller: caller.recv(1)) as url,
        pytest.raises(BackendUnavailable, match=r"connecting failed .*DOCKER_TLS_VERIFY=1"),
    ):
        connect(url)


def test_a_daemon_that_requires_tls_is_reported_with_a_remedy() -> None:
    said = b"Client sent an HTTP request to an HTTPS server.\n"
    with (
        daemon_that_says(said, status=400) as url,
        pytest.raises(BackendUnavailable, match=r"refused connecting: Client sent .*DOCKER_TLS_VERIFY=1"),
    ):
        connect(url)


def test_an_endless_greeting_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_ANSWER_S", 1.0)
    is_told = threading.Event()

    def drip(caller: socket.socket) -> None:
        caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not is_told.wait(0.1):  # often enough that each piece is in time
            caller.sendall(b" ")

    with listener_that(drip) as url:
        with pytest.raises(BackendUnavailable, match="took too long for connecting"):
            connect(url)
        is_told.set()


@contextmanager
def listener_that(answers: Callable[[socket.socket], object]) -> Iterator[str]:
    """Listen on a port, answer each caller like this, and hang up."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = door.accept()
                    with caller, suppress(OSError):
                        answers(caller)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{door.getsockname()[1]}"
        door.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_an_address_without_a_socket_is_the_machines_own() -> None:
    assert find_url("unix://") == "unix:///var/run/docker.sock"
    with (
        pytest.raises(BackendUnavailable, match=r"at unix:///var/run/docker\.sock"),
        translate_failures("x", host="unix://"),
    ):
        raise FileNotFoundError


def test_errors_of_the_engine_pass_unchanged() -> None:
    with pytest.raises(ValueError, match="mine"), translate_failures("trying"):
        raise ValueError("mine")


def test_importing_the_engine_does_not_import_the_sdk() -> None:
    script = "import sys, sandbox.backends.container.docker.client, sandbox.images;"
    script += "assert not {'docker', 'requests'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
