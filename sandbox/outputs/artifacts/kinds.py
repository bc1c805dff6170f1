"""Detect the kind of bytes by their content: a small table of how formats begin, and the size of an image.

A name says nothing, because a tool chose it. A format does not promise that the rest is well-formed; nothing is
decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_DETECTION_BYTES: Final = 64 << 10
"""As many bytes from the beginning are enough to tell."""
UNKNOWN: Final = "application/octet-stream"
_TEXT: Final = "text/plain"
_MAX_SIDE: Final = 1 << 24
_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"(\xb5/\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"ARROW1\0\0", "application/vnd.apache.arrow.file"),
    (b"\x93NUMPY", "application/x-npy"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    (b"OggS", "application/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\0asm", "application/wasm"),
    (b"{\\rtf", "application/rtf"),
)
_SUFFIXES: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "application/pdf": "pdf",
    "application/zip": "zip",
}
_CONTROLS: Final = bytes(each for each in range(32) if each not in b"\a\b\t\n\v\f\r\x1b")


@dataclass(frozen=True, slots=True)
class ContentKind:
    """The MIME type of some bytes, with the size if they are an image that says it."""

    mime: str
    width: int | None = None
    height: int | None = None

    @property
    def suffix(self) -> str:
        """How files of it end, where that is one of the most usual."""
        return _SUFFIXES.get(self.mime, "bin")


def detect_kind(beginning: bytes) -> ContentKind:
    """Return the kind of bytes that begin like this."""
    mime = _by_signature(beginning) or _by_text(beginning)
    size = _SIZES[mime](beginning) if mime in _SIZES else None
    if size is None or not all(0 < side < _MAX_SIDE for side in size):
        return ContentKind(mime)
    return ContentKind(mime, *size)


def _by_signature(data: bytes) -> str | None:
    for beginning, mime in _BEGINNINGS:
        if data.startswith(beginning):
            return mime
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(data[8:12])
    if data[4:8] == b"ftyp":
        return {b"avif": "image/avif", b"heic": "image/heic"}.get(data[8:12], "video/mp4")
    return "application/x-tar" if data[257:262] == b"ustar" else None


def _by_text(data: bytes) -> str:
    """Return the kind of text, by its beginning; text is UTF-8 without control characters, but those of terminals."""
    if data.translate(None, _CONTROLS) != data:
        return UNKNOWN
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3 or error.reason != "unexpected end of data":
            return UNKNOWN
        text = data[: error.start].decode()
    start = text.lstrip("\ufeff \t\r\n")[:256].lower()
    if start.startswith(("<!doctype html", "<html")):
        return "text/html"
    if start.startswith("<svg") or (start.startswith("<?xml") and "<svg" in text[:4096]):
        return "image/svg+xml"
    if start.startswith("<?xml"):
        return "application/xml"
    return "application/json" if _looks_like_json(text) else _TEXT


def _looks_like_json(text: str) -> bool:
    """Return an object or a list, as far as its two ends tell; the end is not always among what is looked at."""
    start, end = text.lstrip()[:2].rstrip(), text.rstrip()[-1:]
    is_object = start[:1] == "{" and start[1:] in ("", '"', "}")
    is_list = start[:1] == "[" and (start[1:] in ("", "]", '"', "{", "[", "-", "n", "t", "f") or start[1:].isdigit())
    return (is_object or is_list) and (end in "]}" or len(text.encode()) >= MAX_DETECTION_BYTES - 3)


def _png(data: bytes) -> tuple[int, int] | None:
    return _unpacked(">II", data, 16) if data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> tuple[int, int] | None:
    return _unpacked("<HH", data, 6)


def _bmp(data: bytes) -> tuple[int, int] | None:
    size = _unpacked("<ii", data, 18)
    return None if size is None else (abs(size[0]), abs(size[1]))


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Return the size in a JPEG: walk over the segments up to the one that begins a frame."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            size = _unpacked(">HH", data, at + 5)
            return None if size is None else (size[1], size[0])
        at += 2 + max(length, 1)
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[12:16] == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    size = _unpacked("<HH", data, 26) if data[12:16] == b"VP8 " else None
    return None if size is None else (size[0] & 0x3FFF, size[1] & 0x3FFF)


def _unpacked(form: str, data: bytes, at: int) -> tuple[int, int] | None:
    if len(data) < at + struct.calcsize(form):
        return None
    first, second = struct.unpack_from(form, data, at)
    return first, second


_SIZES: Final[dict[str, Callable[[bytes], tuple[int, int] | None]]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/bmp": _bmp,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}
