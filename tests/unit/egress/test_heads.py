"""Heads of requests have a single reading, or are refused; heads of answers say that the connection closes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.egress.http_head import Head, Malformed, announce_close, is_interim, read_head


def test_a_tunnel_names_a_host_and_a_port() -> None:
    head = read_head(b"CONNECT API.example.:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n")
    assert head == Head("CONNECT", "api.example", 443)
    assert head.is_tunnel


def test_an_address_in_brackets_is_a_host() -> None:
    assert read_head(b"CONNECT [2606:4700::1111]:443 HTTP/1.1\r\n\r\n").host == "2606:4700::1111"


def test_a_plain_request_is_rewritten() -> None:
    head = read_head(
        b"POST http://a.example:8080/x?y=1 HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 3\r\nA: \xe4\r\n"
        b"Proxy-Connection: keep-alive\r\nConnection: close, A2\r\nA2: gone\r\n\r\n"
    )
    assert (head.host, head.port, head.length) == ("a.example", 8080, 3)
    kept = b"Host: a.example:8080\r\nContent-Length: 3\r\nA: \xe4\r\nConnection: close\r\n\r\n"
    assert head.onward == b"POST /x?y=1 HTTP/1.1\r\n" + kept
    assert head.absolute == b"POST http://a.example:8080/x?y=1 HTTP/1.1\r\n" + kept


@pytest.mark.parametrize(("target", "path"), [("http://a", "/"), ("http://a?q", "/?q"), ("HTTP://a/b", "/b")])
def test_a_request_always_has_a_path(target: str, path: str) -> None:
    assert read_head(f"GET {target} HTTP/1.0\r\n\r\n".encode()).onward.startswith(f"GET {path} HTTP/1.1\r\n".encode())


def test_the_connection_field_cannot_remove_the_length() -> None:
    head = read_head(b"POST http://a/ HTTP/1.1\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\n")
    assert b"\r\nContent-Length: 3\r\n" in head.onward


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for begun in (b"", b"GET http://a.example/ HTTP/1.1\r\n", b"CONNECT a.example:443 HTTP/1.1\r\n"):
        try:
            head = read_head(begun + data + b"\r\n\r\n")
        except Malformed:
            continue
        assert head.onward.count(b"\r\n\r\n") == (0 if head.is_tunnel else 1)
        assert head.onward.lower().count(b"\r\nhost:") == (0 if head.is_tunnel else 1)
        assert head.host == "a.example" or not begun


FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b"Host", b"Connection", b"Content-Length", b"Transfer-Encoding", b"X", b"Upgrade"]),
        st.sampled_from([b"a.example", b"b.example", b"host", b"3", b"chunked", b"close", b"a.example:80", b""]),
    ),
    max_size=5,
)


@given(FIELDS)
def test_no_later_reader_finds_another_host_or_length(fields: list[tuple[bytes, bytes]]) -> None:
    lines = b"".join(name + b": " + text + b"\r\n" for name, text in fields)
    try:
        head = read_head(b"POST http://a.example/ HTTP/1.1\r\n" + lines + b"\r\n")
    except Malformed:
        return
    sent = [line.lower() for line in head.onward.split(b"\r\n")]
    assert [line for line in sent if line.startswith(b"host:")] == [b"host: a.example"]
    framing = [line for line in sent if line.startswith((b"content-length:", b"transfer-encoding:"))]
    assert framing == {0: framing[:1] if framing == [b"content-length: 0"] else [], 3: [b"content-length: 3"]}.get(
        head.length if isinstance(head.length, int) else -1, [b"transfer-encoding: chunked"]
    )


@pytest.mark.parametrize(
    ("answer", "passed_on"),
    [
        (b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: 1\r\nConnection: close\r\n\r\n"),
        (
            b"HTTP/1.0 404 No\r\nconnection: keep-alive\r\nKeep-Alive: timeout=5\r\nA: \xe4\r\n\r\n",
            b"HTTP/1.0 404 No\r\nA: \xe4\r\nConnection: close\r\n\r\n",
        ),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 cut o", b"HTTP/1.1 200 cut o"),
        (b"220 mail.example\r\n\r\n", b"220 mail.example\r\n\r\n"),
        (b"", b""),
    ],
)
def test_an_answer_says_that_the_connection_closes(answer: bytes, passed_on: bytes) -> None:
    assert announce_close(answer) == passed_on
    assert is_interim(answer) == (b" 100 " in answer)
