"""Constant text, computed the way a source would compute it, in bounded steps: `"sys" + "tem"`, `"".join(…)`, decoding.

A part that is not constant becomes `UNKNOWN`, so that the rest of a path or a command stays readable. Nothing here
formats or repeats at the will of a source: results never grow beyond a small multiple of their operands.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Callable, Sequence
from typing import Final

Constant = str | bytes | int | tuple[int | str | bytes, ...]

UNKNOWN: Final = "\0"
MAX_LENGTH: Final = 2048
_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "base64.b64decode": base64.b64decode,
    "base64.standard_b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
    "base64.decodebytes": base64.b64decode,
    "base64.b32decode": base64.b32decode,
    "base64.b16decode": base64.b16decode,
    "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_hex": binascii.unhexlify,
    "binascii.a2b_base64": binascii.a2b_base64,
    "builtins.bytes.fromhex": lambda data: bytes.fromhex(data.decode()),
    "builtins.bytearray.fromhex": lambda data: bytes.fromhex(data.decode()),
}


def bounded(value: object) -> Constant | None:
    """Return a constant that is small enough to compute with."""
    if isinstance(value, str | bytes | tuple):
        return value if len(value) <= MAX_LENGTH else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 32 else None


def is_whole(value: Constant) -> bool:
    """Return whether all parts of a text are known."""
    return not isinstance(value, str) or UNKNOWN not in value


def added(left: Constant, right: Constant) -> Constant | None:
    """Return `left + right`."""
    if isinstance(left, str) and isinstance(right, str):
        return bounded(left + right)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return bounded(left + right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return bounded(left + right)
    return None


def joined(between: Constant, parts: Constant) -> Constant | None:
    """Return `between.join(parts)`; `parts` may be text, whose letters are then joined."""
    if not isinstance(between, str | bytes) or not isinstance(parts, str | tuple):
        return None
    if len(parts) * (len(between) + 1) > MAX_LENGTH:
        return None
    if isinstance(between, str) and all(isinstance(each, str) for each in parts):
        return bounded(between.join(map(str, parts)))
    chunks = [each for each in parts if isinstance(each, bytes)]
    if isinstance(between, bytes) and len(chunks) == len(parts):
        return bounded(between.join(chunks))
    return None


def path_joined(parts: Sequence[str]) -> str:
    """Return the path of these parts; an absolute one starts again, as for `os.path.join`."""
    path = ""
    for part in parts:
        path = part if part.startswith("/") or not path else f"{path.rstrip('/')}/{part}"
    return path[:MAX_LENGTH]


def filled(template: Constant, values: Sequence[str]) -> Constant | None:
    """Return `template % values`, for `%s` and its like; values that are missing are unknown."""
    if not isinstance(template, str) or len(template) * (1 + max(map(len, values), default=0)) > 1 << 16:
        return None
    first, *rest = template.replace("%r", "%s").replace("%d", "%s").split("%s")
    text = first + "".join(
        (values[number] if number < len(values) else UNKNOWN) + part for number, part in enumerate(rest)
    )
    return bounded(text)


def formatted(template: Constant, values: Sequence[str]) -> Constant | None:
    """Return `template.format(*values)`, for fields that are empty or numbers."""
    if not isinstance(template, str) or len(template) * (1 + max(map(len, values), default=0)) > 1 << 16:
        return None
    first, *rest = template.split("{")
    text = first
    for number, part in enumerate(rest):
        place, closing, after = part.partition("}")
        index = int(place) if place.isdecimal() and len(place) < 4 else number
        text += (values[index] if closing and index < len(values) else UNKNOWN) + after
    return bounded(text)


def called_method(name: str, subject: Constant, args: Sequence[Constant]) -> Constant | None:
    """Return what a method of text or bytes returns, or None if it is not one that an analysis follows."""
    if isinstance(subject, str) and name in ("lower", "upper", "strip", "title", "swapcase", "casefold") and not args:
        return bounded(getattr(subject, name)())
    if isinstance(subject, str) and name == "encode":
        return bounded(subject.encode(errors="replace"))
    if isinstance(subject, bytes) and name == "decode":
        return bounded(subject.decode(errors="replace"))
    if isinstance(subject, bytes) and name == "hex" and not args:
        return bounded(subject.hex())
    if name == "replace" and len(args) >= 2:
        return _replaced(subject, args[0], args[1])
    return None


def _replaced(subject: Constant, old: Constant, new: Constant) -> Constant | None:
    if isinstance(subject, str) and isinstance(old, str) and isinstance(new, str):
        return bounded(subject.replace(old, new)) if len(subject) * (len(new) + 1) <= 1 << 16 else None
    return None


def decoded(name: str, data: Constant, args: Sequence[Constant]) -> Constant | None:
    """Return what a decoder makes of a constant; decompression is left out, because it can grow without bounds."""
    if name == "codecs.decode":
        is_rotated = bool(args) and str(args[0]).lower() in ("rot13", "rot_13", "rot-13")
        return bounded(codecs.decode(data, "rot13")) if is_rotated and isinstance(data, str) else None
    decode = _DECODERS.get(name)
    if decode is None or not isinstance(data, str | bytes):
        return None
    try:
        return bounded(decode(data.encode() if isinstance(data, str) else data))
    except ValueError:  # also `binascii.Error`
        return None


def characters(codes: Constant) -> Constant | None:
    """Return the text of these character codes."""
    if isinstance(codes, int):
        codes = (codes,)
    if isinstance(codes, str | bytes):
        return codes
    numbers = [each for each in codes if isinstance(each, int) and 0 <= each < 0x110000]
    return "".join(map(chr, numbers)) if len(numbers) == len(codes) else None
