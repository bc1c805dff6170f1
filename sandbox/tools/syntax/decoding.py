"""Decode source bytes as Python would, if a reader of the file would read the same text.

Python lets a file name any codec of the standard library in its first two lines (PEP 263). Some of those codecs turn
innocent-looking text into other statements (`unicode_escape`, `utf_7`, `rot13`), which a person or a scanner that reads
the file never sees. So only named character sets that extend ASCII are accepted.

Text that is handed over as `str` is decoded already, yet its encoding line still counts: the box writes the text as
UTF-8 and Python would follow the line there. The line is therefore checked in the same way, and rewritten to say UTF-8.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from sandbox.errors import SourceError
from sandbox.tools.safe_text import NAME_LENGTH, excerpt

MAX_SOURCE_BYTES: Final = 5 * 1024 * 1024

_NEWLINE = re.compile(r"\r\n?")
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_NO_CODE = re.compile(r"^[ \t\f]*(?:#.*)?$")
_UTF_8 = re.compile(r"utf-?8(?:-[a-z]+)?")
_LATIN_1 = re.compile(r"latin-?1|iso-latin-1|iso-?8859-1(?:-[a-z]+)?")
_ISO_8859 = re.compile(r"iso-?8859-(\d{1,2})")
_WINDOWS = re.compile(r"(?:cp|windows-)(125\d)")
_ASCII = re.compile(r"(?:us-)?ascii")
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def decode_source(source: str | bytes) -> str:
    """Return the text of a source: no byte order mark, `\\n` newlines, safe to write as UTF-8."""
    _refuse_oversize(len(source))
    text = source.removeprefix("\ufeff") if isinstance(source, str) else _decode_bytes(source)
    text = _NEWLINE.sub("\n", text)
    _refuse_nul(text)
    _refuse_oversize(_encoded_length(text))
    return _declare_utf_8(text)


def _refuse_oversize(size: int) -> None:
    if size > MAX_SOURCE_BYTES:
        raise SourceError(
            f"the source has {size} bytes and may have {MAX_SOURCE_BYTES}",
            remedy="hand large data over as an argument or a file",
        )


def _decode_bytes(source: bytes) -> str:
    if source.startswith(_WIDE_MARKS):
        raise SourceError("the source is UTF-16 or UTF-32", line=1, remedy="save the file as UTF-8")
    marked = source.startswith(codecs.BOM_UTF8)
    body = source.removeprefix(codecs.BOM_UTF8)
    codec = _declared_codec(_NEWLINE.sub("\n", body.decode("latin-1")))
    if marked and codec != "utf-8":
        raise SourceError(
            f"the source starts with a UTF-8 byte order mark and declares the encoding {codec}",
            line=1,
            remedy="remove the encoding line",
        )
    return _decode(body, codec)


def _decode(body: bytes, codec: str) -> str:
    try:
        return body.decode(codec)
    except UnicodeDecodeError as error:
        raise SourceError(
            f"byte 0x{body[error.start]:02x} is not {codec} text",
            line=_NEWLINE.sub("\n", body[: error.start].decode("latin-1")).count("\n") + 1,
            remedy="save the file as UTF-8",
        ) from None


def _declared_codec(text: str) -> str:
    found = _find_cookie(text)
    return "utf-8" if found is None else _codec_named(found[0], line=found[1])


def _find_cookie(text: str) -> tuple[str, int] | None:
    """Return the encoding named in the first line, or in the second after a line without code; and which line it is."""
    for number, line in enumerate(text.split("\n", 2)[:2], start=1):
        cookie = _COOKIE.match(line)
        if cookie is not None:
            return cookie[1], number
        if not _NO_CODE.match(line):
            return None
    return None


def _codec_named(name: str, *, line: int) -> str:
    plain = name.lower().replace("_", "-")
    if _UTF_8.fullmatch(plain):
        return "utf-8"
    if _LATIN_1.fullmatch(plain):
        return "latin-1"
    if _ASCII.fullmatch(plain):
        return "ascii"
    family, number = ("cp", _WINDOWS.fullmatch(plain)) if plain[0] in "cw" else ("iso8859-", _ISO_8859.fullmatch(plain))
    if number is not None and _exists(f"{family}{number[1]}"):
        return f"{family}{number[1]}"
    raise SourceError(
        f"the source declares the encoding {excerpt(name, NAME_LENGTH)}, which is not read",
        line=line,
        remedy="save the file as UTF-8 and remove the encoding line",
    )


def _exists(codec: str) -> bool:
    try:
        codecs.lookup(codec)
    except LookupError:
        return False
    return True


def _declare_utf_8(text: str) -> str:
    found = _find_cookie(text)
    if found is None:
        return text
    name, number = found
    _codec_named(name, line=number)
    if name.lower() == "utf-8":
        return text
    lines = text.split("\n", 2)
    cookie = _COOKIE.match(lines[number - 1])
    assert cookie is not None
    lines[number - 1] = lines[number - 1][: cookie.start(1)] + "utf-8" + lines[number - 1][cookie.end(1) :]
    return "\n".join(lines)


def _refuse_nul(text: str) -> None:
    position = text.find("\0")
    if position >= 0:
        line = text.count("\n", 0, position) + 1
        raise SourceError("the source holds a NUL byte, so it is not Python text", line=line, remedy="remove it")


def _encoded_length(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise SourceError(
            "the source holds half of a surrogate pair, which no file can hold",
            line=text.count("\n", 0, error.start) + 1,
            remedy="write the character itself, or an escape",
        ) from None
