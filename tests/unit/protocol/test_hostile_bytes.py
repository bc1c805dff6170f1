"""All bytes from a box become frames, messages or a `ProtocolError`, in bounded memory."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.errors import ProtocolError
from sandbox.protocol.frames import MAX_FRAME, Chunk, FrameReader, Stream, pack_chunk, pack_message
from sandbox.protocol.messages import parse_message, parse_reply

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
chunks = st.builds(Chunk, st.integers(0, (1 << 32) - 1), st.sampled_from(Stream), st.binary(max_size=200))
frames_of_any_kind = st.one_of(
    chunks.map(pack_chunk),
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=3).map(pack_message),
    st.builds(lambda length, rest: struct.pack(">I", length) + rest, st.integers(0, 64), st.binary(max_size=64)),
    st.binary(max_size=64),
)
byte_streams = st.lists(frames_of_any_kind, max_size=8).map(b"".join)


@st.composite
def chunked(draw: st.DrawFn) -> list[bytes]:
    """Split bytes at any places."""
    data = draw(byte_streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _read(pieces: list[bytes]) -> tuple[list[bytes | Chunk], str | None]:
    reader = FrameReader()
    found: list[bytes | Chunk] = []
    try:
        for piece in pieces:
            found.extend(reader.feed(piece))
            assert reader.held < MAX_FRAME + 5
    except ProtocolError as error:
        assert reader.held == 0
        return found, error.message
    return found, None


@pytest.mark.slow
@given(chunked())
def test_any_bytes_in_any_pieces_are_read_like_the_whole(pieces: list[bytes]) -> None:
    assert _read(pieces) == _read([b"".join(pieces)])


@pytest.mark.slow
@given(st.lists(chunks, max_size=5))
def test_packed_frames_are_read_back(sent: list[Chunk]) -> None:
    assert _read([b"".join(pack_chunk(chunk) for chunk in sent)]) == (sent, None)


def test_the_largest_frame_is_read_and_not_kept() -> None:
    reader = FrameReader()
    payload = b"x" * (MAX_FRAME - 1)
    data = struct.pack(">IB", MAX_FRAME, 1) + payload
    assert list(reader.feed(data[:-1])) == []
    assert reader.held == MAX_FRAME + 3
    assert list(reader.feed(data[-1:])) == [payload]
    assert reader.held == 0


def test_a_length_over_the_limit_is_refused_before_its_payload_comes() -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(struct.pack(">IB", MAX_FRAME + 1, 1)))


def test_an_ended_reader_holds_nothing_of_later_bytes() -> None:
    reader = FrameReader()
    for _ in range(3):
        with pytest.raises(ProtocolError):
            list(reader.feed(b"\xff" * 100_000))
        assert reader.held == 0


ENDED: dict[str, Any] = {
    "type": "ended",
    "id": 1,
    "exit_code": 0,
    "signal": None,
    "cpu_s": 0.5,
    "max_rss": 1,
    "bytes_free": 1,
    "inodes_free": 1,
    "killed_by": None,
}
GOOD: list[dict[str, Any]] = [
    {"type": "hello", "protocol": 1, "python": "3", "implementation": "x", "failed": {}, "refused": {}},
    {"type": "fault", "layer": "seccomp", "reason": "no"},
    {"type": "started", "id": 1, "slot": None, "ahead": False},
    {"type": "returned", "id": 1, "cpu_before": 0.01},
    {"type": "ready", "line": 1, "slot": None, "cpu_before": 0.01, "walls": "{}"},
    {"type": "surplus", "line": 1, "wanted": 0},
    {"type": "unfit", "reason": "threads"},
    {name: value for name, value in ENDED.items() if name != "id"} | {"type": "gone", "line": 1},
    ENDED,
]


@pytest.mark.slow
@given(st.binary(max_size=200))
@example(b"[" * 100_000)
@example(b'{"type":"hello","protocol":' + b"9" * 100_000)
@example(b'{"type":"\\ud800"}')
@example(b"\xff\xfe")
def test_any_bytes_are_a_message_or_a_protocol_error(text: bytes) -> None:
    with suppress(ProtocolError):
        parse_message(text)


@pytest.mark.slow
@given(json_values)
def test_any_json_is_a_message_or_a_protocol_error(value: object) -> None:
    with suppress(ProtocolError):
        parse_message(json.dumps(value).encode())


@pytest.mark.slow
@given(st.sampled_from(GOOD), st.data())
def test_a_message_with_any_value_in_any_field_is_valid_or_an_error(good: dict[str, Any], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(good)))
    with suppress(ProtocolError):
        parse_message(json.dumps(good | {field: data.draw(json_values)}).encode())


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good["type"])
def test_a_message_has_exactly_its_fields(good: dict[str, Any]) -> None:
    assert parse_message(json.dumps(good).encode()).type == good["type"]
    for field in good:
        with pytest.raises(ProtocolError):
            parse_message(json.dumps({name: value for name, value in good.items() if name != field}).encode())
    with pytest.raises(ProtocolError, match="Extra"):
        parse_message(json.dumps(good | {"more": 1}).encode())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "finished"),
        ("type", 1),
        ("id", "1"),
        ("id", -1),
        ("id", 1 << 32),
        ("id", 1.0),
        ("id", True),
        ("exit_code", 10**50),
        ("signal", 0),
        ("signal", 4000),
        ("cpu_s", -1),
        ("cpu_s", float("nan")),
        ("cpu_s", float("inf")),
        ("cpu_s", "0.5"),
        ("max_rss", -1),
        ("bytes_free", 1 << 60),
        ("killed_by", "nobody"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str, value: object) -> None:
    with pytest.raises(ProtocolError):
        parse_message(json.dumps(ENDED | {field: value}).encode())


def test_words_of_a_box_enter_an_error_only_up_to_a_bound() -> None:
    with pytest.raises(ProtocolError) as refusal:
        parse_message(json.dumps({"type": "x" * 100_000}).encode())
    assert len(str(refusal.value)) < 400


@pytest.mark.slow
@given(st.binary(max_size=200))
@example(b'{"kind":"value","warnings":[],"value":' + b"[" * 10_000 + b"]" * 10_000 + b"}")
@example(b'{"kind":"value","warnings":[],"value":NaN}')
@example(b'{"kind":"value","warnings":[],"value":1e999}')
@example(b'{"kind":"value","warnings":[],"value":' + b"9" * 5000 + b"}")
@example(b'{"kind":"value","warnings":[],"value":"\\ud800"}')
@example(b'{"kind":"exited","code":' + b"9" * 4000 + b"}")
def test_any_bytes_are_a_reply_or_a_protocol_error(text: bytes) -> None:
    with suppress(ProtocolError):
        parse_reply(text)


@pytest.mark.slow
@given(json_values)
def test_a_value_of_any_json_is_the_same_in_the_reply(value: object) -> None:
    text = json.dumps({"kind": "value", "value": value, "warnings": []}).encode()
    try:
        reply = parse_reply(text)
    except ProtocolError:
        assert any(word in text for word in (b"NaN", b"Infinity", b"\\ud")) or _has_huge_integer(value)
    else:
        assert json.dumps(reply.model_dump()["value"]) == json.dumps(value)


def _has_huge_integer(value: object) -> bool:
    return any(len(word) > 4000 for word in json.dumps(value).split())
