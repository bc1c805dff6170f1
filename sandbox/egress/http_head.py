"""The heads of requests to the proxy, parsed so that no later reader can understand them differently; and of answers.

A request is `CONNECT host:port`, or a request with an absolute address (`GET http://host/path`). The parser refuses
everything that two readers might understand differently: lines that do not end in CRLF, control characters, folded
lines, two hosts, a host that differs from the address, two lengths, a length next to a coding. The proxy takes a single
request from each connection, so that a second request cannot name another host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

MAX_HEAD_BYTES: Final = 32 << 10
END_OF_HEAD: Final = b"\r\n\r\n"
_MAX_FIELDS: Final = 128
_MAX_HOST: Final = 253
_LINE: Final = re.compile(r"([A-Z]{1,20}) (\S+) HTTP/1\.[01]")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_ADDRESS: Final = re.compile(r"http://([^/?#]*)([/?][^#]*)?", flags=re.IGNORECASE)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_FOR_US_ALONE: Final = frozenset(
    "connection proxy-connection keep-alive proxy-authorization proxy-authenticate te upgrade host".split()  # noqa: SIM905
)
_FINAL_ANSWER: Final = re.compile(rb"HTTP/1\.[01] [2-5][0-9]{2}")
_INTERIM_ANSWER: Final = re.compile(rb"HTTP/1\.[01] 1[0-9]{2}")
_KEEPING_ALIVE: Final = frozenset((b"connection", b"keep-alive", b"proxy-connection"))
Length = int | Literal["chunked"]


class Malformed(Exception):
    """The request is not acceptable; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request."""

    method: str
    host: str
    """The host in lower case, without the dot of the root or the brackets of an address."""
    port: int
    onward: bytes = b""
    """The head to send on; empty for `CONNECT`."""
    absolute: bytes = b""
    """The head to send on to another proxy."""
    length: Length = 0
    """The length of the body."""

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"


def read_head(data: bytes) -> Head:
    """Parse a head, up to the empty line; raise `Malformed` if it is not acceptable."""
    method, target, fields = _parts(data)
    if method == "CONNECT":
        host, port = _authority(target, port=None)
        _refuse_other_host(fields, host)
        return Head(method, host, port)
    found = _ADDRESS.fullmatch(target)
    if found is None:
        raise Malformed("write CONNECT host:port, or a request with its whole address, such as GET http://host/path")
    host, port = _authority(found[1], port=80)
    _refuse_other_host(fields, host)
    path = found[2] or "/"
    path = path if path.startswith("/") else f"/{path}"
    kept = [f"Host: {found[1]}", *(f"{name}: {text}" for name, text in fields if _is_passed_on(name, fields))]
    rest = "\r\n".join((*kept, "Connection: close", "", "")).encode("latin-1")
    return Head(
        method,
        host,
        port,
        onward=f"{method} {path} HTTP/1.1\r\n".encode("latin-1") + rest,
        absolute=f"{method} http://{found[1]}{path} HTTP/1.1\r\n".encode("latin-1") + rest,
        length=_length(fields),
    )


def is_interim(answer: bytes) -> bool:
    """Return whether another head follows this one, as after `100 Continue`."""
    return _INTERIM_ANSWER.match(answer) is not None


def announce_close(answer: bytes) -> bytes:
    """Return the head of an answer with the news that no request may follow it; other bytes stay as they are.

    Without that, a program keeps the connection for its next request, meets the end, and may wait before it retries.
    """
    if not (_FINAL_ANSWER.match(answer) and answer.endswith(END_OF_HEAD)):
        return answer
    lines = answer.removesuffix(END_OF_HEAD).split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _KEEPING_ALIVE]
    return b"\r\n".join((*kept, b"Connection: close", b"", b""))


def _parts(data: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    lines = data.removesuffix(END_OF_HEAD).decode("latin-1").split("\r\n")
    if any(_CONTROLS.search(line) for line in lines):
        raise Malformed("its head holds control characters, or lines that do not end as they should")
    found = _LINE.fullmatch(lines[0])
    if found is None:
        raise Malformed("its first line is not a request line of HTTP/1.1")
    if len(lines) > _MAX_FIELDS:
        raise Malformed(f"it has more than {_MAX_FIELDS} fields")
    return found[1], found[2], [_field(line) for line in lines[1:]]


def _field(line: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise Malformed("its head holds a line that is no field")
    return found[1], found[2]


def _authority(text: str, *, port: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    given = int(found[2]) if found and found[2] else port
    if found is None or given is None or not 0 < given < 1 << 16 or len(found[1]) > _MAX_HOST:
        raise Malformed("it names no host and port that can be read")
    return found[1].lower().strip("[]").rstrip("."), given


def _refuse_other_host(fields: list[tuple[str, str]], host: str) -> None:
    """Raise `Malformed` unless the only `Host` field, if any, names the request's host."""
    said = [text for name, text in fields if name.lower() == "host"]
    if len(said) > 1 or any(_authority(text, port=80)[0] != host for text in said):
        raise Malformed("it names another host in its head than in its first line")


def _is_passed_on(name: str, fields: list[tuple[str, str]]) -> bool:
    """Return False for fields between a program and its proxy, including those that `Connection` names."""
    named = {
        each.strip().lower() for field, text in fields if field.lower() == "connection" for each in text.split(",")
    }
    framing = {"content-length", "transfer-encoding"}
    return name.lower() not in _FOR_US_ALONE | (named - framing)


def _length(fields: list[tuple[str, str]]) -> Length:
    lengths = [text for name, text in fields if name.lower() == "content-length"]
    codings = [text for name, text in fields if name.lower() == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise Malformed("it says in two ways how long its body is")
    if codings:
        if codings[0].lower() != "chunked":
            raise Malformed("its body has a coding other than chunked")
        return "chunked"
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise Malformed("its length is no number")
    return int(lengths[0]) if lengths else 0
