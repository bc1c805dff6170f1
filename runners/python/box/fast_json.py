"""JSON, by the parts of it that are written in C.

The public module brings regular expressions and enumerations along, which are most of what a runner would load before
its box is up: a fifth of the time that takes, and as much again of its memory. None of them is needed for what the
parts in C do. Where an interpreter lacks these, the public module is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    import _json

    _parts: Any = _json
except ImportError:
    _parts = None

_CONSTANTS = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}


class _AsUsual:
    """How the public module has documents read."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = _CONSTANTS.__getitem__


_scan = _parts and _parts.make_scanner(_AsUsual)


def read(text: str) -> Any:
    """What the document says; ValueError for a text that is none. What is out of the ordinary, and what is wrong, for
    which the part in C has no words of its own, is left to the public module."""
    try:
        content, end = _scan(text, 0) if _scan else (None, None)
    except (StopIteration, SystemError, ImportError):
        end = None
    if end == len(text):
        return content
    import json

    return json.loads(text)


def write(
    content: Any, *, default: Callable[[Any], Any] | None = None, allow_nan: bool = True, in_order: bool = False
) -> str:
    """The content in ASCII and without blanks. What it does not know goes to `default`; TypeError where there is none,
    or for keys that have no order where they are to be put `in_order`; ValueError for what contains itself."""
    if not _parts:
        import json

        return json.dumps(content, default=default, allow_nan=allow_nan, sort_keys=in_order, separators=(",", ":"))
    ascii_text = _parts.encode_basestring_ascii
    encode = _parts.make_encoder({}, default, ascii_text, None, ":", ",", in_order, False, allow_nan)
    return "".join(encode(content, 0))
