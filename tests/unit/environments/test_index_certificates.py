"""An index that is reached by TLS is believed only if its certificate is one that this machine trusts."""

from __future__ import annotations

import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.environments.indexes.client import Fault, _context
from sandbox.environments.indexes.settings import Index, IndexSettings
from tests.indexes import opened_client

# The index of these tests: its key, which protects nothing, and its certificate for 127.0.0.1, its own authority.
OURS: Final = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgcn6JT6UgUApnkCgw
MjkuQqVbvYPMAWIIH6bKlqZpDAmhRANCAAS3Ri8deIGCO2lmK/Z+oVU8jrqB3EfL
jLPXdS3V4X1bHwuzb/iMq2r8C9eXHy2zCCtZ36tOOU7Urs2fbyKCHPki
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBrDCCAVKgAwIBAgIURTFcIcZJwnbWm1JkPQO+Z4q7BOowCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXYW4gaW5kZXggb2YgdGhlc2UgdGVzdHMwIBcNMjYxMTE4MTUw
NzQ4WhgPMjEyNjEwMjUxNTA3NDhaMCIxIDAeBgNVBAMMF2FuIGluZGV4IG9mIHRo
ZXNlIHRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEt0YvHXiBgjtpZiv2
fqFVPI66gdxHy4yz13Ut1eF9Wx8Ls2/4jKtq/AvXlx8tswgrWd+rTjlO1K7Nn28i
ghz5IqNkMGIwHQYDVR0OBBYEFH1drQSTewR6RMOtIRWVbYPV619OMB8GA1UdIwQY
MBaAFH1drQSTewR6RMOtIRWVbYPV619OMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0R
BAgwBocEfwAAATAKBggqhkjOPQQDAgNIADBFAiB4ruC213NXA/Q4oZq2T8cZUz/l
NZqZqSv+R9oJrfVmAAIhAM46Xy+Mx/ldV1EjhFg/Sy2joR/I5qG3D4TnjfiXbfMW
-----END CERTIFICATE-----
"""
# Another authority, which has not signed that.
THEIRS: Final = """\
-----BEGIN CERTIFICATE-----
MIIBrDCCAVKgAwIBAgIUCBqPbDA0Ze3EjoIXvJyE6EXMA58wCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXYW4gaW5kZXggb2YgdGhlc2UgdGVzdHMwIBcNMjYxMTE4MTUw
NzQ4WhgPMjEyNjEwMjUxNTA3NDhaMCIxIDAeBgNVBAMMF2FuIGluZGV4IG9mIHRo
ZXNlIHRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEwsK+JKUDI4HeGa82
Dq3n4VuFrolCj90g8c6bPFdzN0rWnqd3C4qCF1PFkJgxLp3uWsSZFMxf9v0hb6QN
g5P9gaNkMGIwHQYDVR0OBBYEFOZ5Vfq0KrAS6mey6PkRdLUpqDjrMB8GA1UdIwQY
MBaAFOZ5Vfq0KrAS6mey6PkRdLUpqDjrMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0R
BAgwBocEfwAAATAKBggqhkjOPQQDAgNIADBFAiBvy/Up71e2vUI3Fdwn19HaYPNL
fFq8sjzUb/c4IbjT8wIhAPqrfXO+IFuyqQmOFvd67/L40Fe9SQCZuELrpGwHlueO
-----END CERTIFICATE-----
"""
FOUND: Final = [b"a file"] * 2


class _Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        page = b"a file"
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *_: Any) -> None:
        pass


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Where an index listens that is for everybody."""
    with _serving(tmp_path) as port:
        yield port


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    for name, text in {"ours": OURS, "theirs": THEIRS}.items():
        (folder / f"{name}.pem").write_text(text)
    identity = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity.load_cert_chain(folder / "ours.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        server.socket = identity.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def _files(port: int, *, certificates: Path | None, host: str = "127.0.0.1", **settings: Any) -> list[bytes]:
    """Return the answers of two requests. The second uses the first one's connection."""
    place = f"https://{host}:{port}"
    told = IndexSettings(indexes=(Index(f"{place}/simple"),), certificates=certificates, timeout_s=5, **settings)
    found = []
    with tempfile.TemporaryDirectory() as folder, opened_client(told, Path(folder)) as client:
        for _ in range(2):
            with client.open(f"{place}/child-1.0-py3-none-any.whl") as reply:
                found.append(b"".join(reply.pieces))
    return found


def test_an_index_whose_authority_is_trusted_is_believed(port: int, tmp_path: Path) -> None:
    assert _files(port, certificates=tmp_path / "ours.pem") == FOUND


@pytest.mark.parametrize("trusted", ["theirs.pem", None])
def test_an_index_whose_authority_is_not_trusted_is_not_believed(
    port: int, tmp_path: Path, trusted: str | None
) -> None:
    with pytest.raises(Fault, match="certificate is not trusted"):
        _files(port, certificates=tmp_path / trusted if trusted else None)


def test_a_certificate_of_another_host_is_not_believed(port: int, tmp_path: Path) -> None:
    with pytest.raises(Fault, match="certificate is not trusted"):
        _files(port, certificates=tmp_path / "ours.pem", host="localhost")


def test_authorities_that_changed_are_read_again(port: int, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    for authority, is_believed in ((THEIRS, False), (OURS, True), (THEIRS, False)):
        trusted.unlink(missing_ok=True)
        trusted.write_text(authority)
        try:
            assert bool(_files(port, certificates=trusted)) == is_believed
        except Fault:
            assert not is_believed


def test_a_file_that_holds_no_certificates_is_a_fault(port: int, tmp_path: Path) -> None:
    (tmp_path / "garbage.pem").write_text("nothing")
    with pytest.raises(Fault, match="certificates to use for it cannot be read") as caught:
        _files(port, certificates=tmp_path / "garbage.pem")
    assert "PIP_CERT" in str(caught.value.remedy)


def test_where_none_is_named_the_systems_authorities_are_trusted(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ours.pem"))  # where OpenSSL looks for them
    _context.cache_clear()
    try:
        assert _files(port, certificates=None) == FOUND
        with pytest.raises(Fault, match="certificate is not trusted"):
            _files(port, certificates=tmp_path / "theirs.pem")
    finally:
        _context.cache_clear()


@pytest.mark.parametrize("unchecked", ["127.0.0.1", "127.0.0.1:{port}"])
def test_a_host_that_is_not_to_be_checked_is_believed(unchecked: str, port: int, tmp_path: Path) -> None:
    hosts = frozenset({unchecked.format(port=port)})
    assert _files(port, certificates=tmp_path / "theirs.pem", unchecked_hosts=hosts) == FOUND


@pytest.mark.parametrize("unchecked", ["localhost", "127.0.0.1:1", "0.0.1", "127.0.0.1.test"])
def test_every_other_host_is_checked(unchecked: str, port: int, tmp_path: Path) -> None:
    with pytest.raises(Fault, match="certificate is not trusted"):
        _files(port, certificates=tmp_path / "theirs.pem", unchecked_hosts=frozenset({unchecked}))


def test_a_server_without_tls_is_not_called_untrusted(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with pytest.raises(Fault, match="does not speak TLS"):
            _files(server.server_port, certificates=None)
        server.shutdown()
        thread.join()
