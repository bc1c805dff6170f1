"""Both sides of the channel read and write the bytes of tests/contract/vectors/frames.json."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import pytest

from box import frames as runner_frames
from sandbox.errors import ProtocolError
from sandbox.protocol import frames
from sandbox.protocol.frames import Chunk, FrameReader, Stream
from sandbox.protocol.messages import RunnerMessage, parse_message
from tests.checkout import ROOT

Vector = dict[str, Any]

VECTORS: Final[dict[str, Any]] = json.loads((ROOT / "tests" / "contract" / "vectors" / "frames.json").read_text())
FRAMES: Final[list[Vector]] = VECTORS["frames"]
FROM_ENGINE: Final = [vector for vector in FRAMES if vector["direction"] == "engine to runner"]
FROM_RUNNER: Final = [vector for vector in FRAMES if vector["direction"] == "runner to engine"]
MALFORMED: Final[list[Vector]] = VECTORS["malformed"]


def _name(vector: Vector) -> str:
    return str(vector["name"])


def _bytes(vector: Vector) -> bytes:
    return bytes.fromhex(vector["hex"])


def _as_the_engine_reads(vector: Vector) -> object:
    if "chunk" in vector:
        chunk = vector["chunk"]
        return Chunk(chunk["call"], Stream(chunk["stream"]), bytes.fromhex(chunk["data"]))
    return vector["message"]


def _as_the_runner_reads(vector: Vector) -> tuple[int, object]:
    if "chunk" in vector:
        chunk = vector["chunk"]
        return runner_frames.CHUNK, (chunk["call"], chunk["stream"], bytes.fromhex(chunk["data"]))
    return runner_frames.MESSAGE, vector["message"]


def _read_by_the_engine(data: bytes) -> list[object]:
    read = FrameReader().feed(data)
    return [frame if isinstance(frame, Chunk) else json.loads(frame) for frame in read]


def _read_by_the_runner(*pieces: bytes) -> list[object]:
    reader = runner_frames.FrameReader(memoryview(bytearray(runner_frames.BUFFER)))
    read: list[object] = []
    for piece in pieces:
        reader.room()[: len(piece)] = piece
        for kind, content in reader.feed(len(piece)):
            is_chunk = kind == runner_frames.CHUNK
            read.append((kind, (*content[:2], bytes(content[2])) if is_chunk else content))
    return read


def test_both_sides_speak_the_protocol_of_the_vectors() -> None:
    assert frames.PROTOCOL == runner_frames.PROTOCOL == VECTORS["protocol"]
    assert frames.MAX_FRAME == runner_frames.MAX_FRAME


def test_the_vectors_cover_every_message_of_a_runner_and_every_stream() -> None:
    said = {vector["message"]["type"] for vector in FROM_RUNNER if "message" in vector}
    assert said == {get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(RunnerMessage)}
    assert {vector["chunk"]["stream"] for vector in FRAMES if "chunk" in vector} == set(Stream)


@pytest.mark.parametrize("vector", FRAMES, ids=_name)
def test_the_engine_reads_every_frame(vector: Vector) -> None:
    assert _read_by_the_engine(_bytes(vector)) == [_as_the_engine_reads(vector)]


@pytest.mark.parametrize("vector", FRAMES, ids=_name)
def test_the_runner_reads_every_frame(vector: Vector) -> None:
    assert _read_by_the_runner(_bytes(vector)) == [_as_the_runner_reads(vector)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_frames_are_the_same_for_any_pieces_of_bytes(size: int) -> None:
    data = b"".join(_bytes(vector) for vector in FRAMES)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    engine = FrameReader()
    read = [frame for piece in pieces for frame in engine.feed(piece)]
    assert [frame if isinstance(frame, Chunk) else json.loads(frame) for frame in read] == [
        _as_the_engine_reads(vector) for vector in FRAMES
    ]
    assert _read_by_the_runner(*pieces) == [_as_the_runner_reads(vector) for vector in FRAMES]


@pytest.mark.parametrize("vector", FROM_ENGINE, ids=_name)
def test_the_engine_writes_exactly_these_bytes(vector: Vector) -> None:
    what = _as_the_engine_reads(vector)
    assert (frames.pack_chunk(what) if isinstance(what, Chunk) else frames.pack_message(vector["message"])) == _bytes(
        vector
    )


@pytest.mark.parametrize("vector", FROM_RUNNER, ids=_name)
def test_the_runner_writes_exactly_these_bytes(vector: Vector) -> None:
    if "chunk" in vector:
        chunk = vector["chunk"]
        written = runner_frames.chunk(chunk["call"], chunk["stream"], bytes.fromhex(chunk["data"]))
    else:
        fields = dict(vector["message"])
        written = runner_frames.message(fields.pop("type"), **fields)
    assert written == _bytes(vector)


@pytest.mark.parametrize("vector", [vector for vector in FROM_RUNNER if "message" in vector], ids=_name)
def test_every_message_of_a_runner_is_parsed(vector: Vector) -> None:
    assert parse_message(_bytes(vector)[5:]).model_dump() == vector["message"]


@pytest.mark.parametrize("vector", FROM_ENGINE[:1], ids=_name)
def test_the_first_message_is_read_without_a_byte_of_the_next(vector: Vector) -> None:
    data = bytearray(_bytes(vector) + b"rest")

    def receive(size: int) -> bytes:
        taken = bytes(data[: min(size, 3)])
        del data[: len(taken)]
        return taken

    assert runner_frames.read_message(receive) == vector["message"]
    assert data == b"rest"


@pytest.mark.parametrize("vector", MALFORMED, ids=_name)
def test_the_engine_refuses_invalid_frames(vector: Vector) -> None:
    with pytest.raises(ProtocolError) as refusal:
        list(FrameReader().feed(_bytes(vector)))
    assert refusal.value.message == vector["engine_says"]


@pytest.mark.parametrize("vector", [each for each in MALFORMED if "runner" in each["refused_by"]], ids=_name)
def test_the_runner_refuses_invalid_frames(vector: Vector) -> None:
    with pytest.raises(runner_frames.FrameError):
        _read_by_the_runner(_bytes(vector))
