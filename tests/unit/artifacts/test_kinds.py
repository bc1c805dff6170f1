"""The kind of a file follows from its content, and the size of an image from its header."""

from __future__ import annotations

import struct
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outputs.artifacts.kinds import MAX_DETECTION_BYTES, ContentKind, detect_kind

PNG: Final = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x06"
JPEG: Final = b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(10) + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", 48, 64) + bytes(9)
WEBP: Final = b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0" + (99).to_bytes(3, "little") + (49).to_bytes(3, "little")
SEEN: Final = {
    PNG: ContentKind("image/png", 640, 480),
    JPEG: ContentKind("image/jpeg", 64, 48),
    b"GIF89a" + struct.pack("<HH", 7, 9): ContentKind("image/gif", 7, 9),
    b"BM" + bytes(16) + struct.pack("<ii", 7, -9): ContentKind("image/bmp", 7, 9),
    WEBP: ContentKind("image/webp", 100, 50),
    PNG[:20]: ContentKind("image/png"),
    PNG[:16] + bytes(8): ContentKind("image/png"),
    PNG[:16] + b"\xff" * 8: ContentKind("image/png"),
    b"\xff\xd8\xff": ContentKind("image/jpeg"),
    b"%PDF-1.7": ContentKind("application/pdf"),
    b"PK\x03\x04rest": ContentKind("application/zip"),
    b"\x1f\x8b\x08": ContentKind("application/gzip"),
    b"\0\0\0\x18ftypisom": ContentKind("video/mp4"),
    bytes(257) + b"ustar": ContentKind("application/x-tar"),
    b"": ContentKind("text/plain"),
    b"plain text\n": ContentKind("text/plain"),
    "ä漢\t\x1b[31m\x1b]0;title\a".encode(): ContentKind("text/plain"),
    b"a\0b": ContentKind("application/octet-stream"),
    b"\xff\xfe": ContentKind("application/octet-stream"),
    b'{"a": 1}': ContentKind("application/json"),
    b"[1, 2]\n": ContentKind("application/json"),
    b"[info] started": ContentKind("text/plain"),
    b"{not json}": ContentKind("text/plain"),
    b"<!DOCTYPE html><p>": ContentKind("text/html"),
    b'<?xml version="1.0"?><svg>': ContentKind("image/svg+xml"),
    b"<?xml version='1.0'?><a/>": ContentKind("application/xml"),
}


@pytest.mark.parametrize("data", SEEN, ids=lambda data: repr(data[:16]))
def test_a_kind_follows_from_the_beginning_of_the_content(data: bytes) -> None:
    assert detect_kind(data) == SEEN[data]


def test_a_file_without_a_name_gets_the_suffix_of_its_kind() -> None:
    assert [detect_kind(data).suffix for data in (PNG, JPEG, b"%PDF-1.7", b"a\0b")] == ["png", "jpg", "pdf", "bin"]


def test_text_may_be_cut_inside_a_character() -> None:
    data = ("x" + "漢" * MAX_DETECTION_BYTES).encode()[:MAX_DETECTION_BYTES]
    assert detect_kind(data).mime == "text/plain"


@pytest.mark.slow
@given(st.binary(max_size=2000), st.sampled_from([b"", *(each[:30] for each in SEEN)]))
def test_any_bytes_are_of_some_kind(data: bytes, beginning: bytes) -> None:
    assert detect_kind(beginning + data).mime
