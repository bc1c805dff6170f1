"""JSON by the C parts of the standard module.

The public module imports regular expressions and enumerations. Both together would be most of the modules that a runner
loads before its box is ready: a fifth of the time, and as much of the memory. The C parts need none of that. An
interpreter without them uses the public module.
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


class _ScannerOptions:
    """The options that the public module gives to the scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = _CONSTANTS.__getitem__


_scan = _parts and _parts.make_scanner(_ScannerOptions)


def read(text: str) -> Any:
    """Return the content of a document; raise ValueError for any other text.

    The public module reads unusual and wrong documents, because the C part has no error messages.
    """
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
    """Return the content as a document in ASCII without blanks; `default` replaces an object of unknown type.

    Raise TypeError for an unknown type without `default`, and for keys without an order if `in_order` is set; raise
    ValueError for content that contains itself.
    """
    if not _parts:
        import json

        return json.dumps(content, default=default, allow_nan=allow_nan, sort_keys=in_order, separators=(",", ":"))
    ascii_text = _parts.encode_basestring_ascii
    encode = _parts.make_encoder({}, default, ascii_text, None, ":", ",", in_order, False, allow_nan)
    return "".join(encode(content, 0))
