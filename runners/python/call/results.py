"""`ToolResult`: a value that says itself whether the tool did what it was asked.

Ours and those of other bases are known by the name of a class in their line, and read by what they have in common.
What they say is the tool's word, as any value is, and nothing more is made of it here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = "ToolResult"
_LINE = type.__dict__["__mro__"]
_CLASS_NAME = type.__dict__["__name__"]
_COMMON = frozenset((dict, list, str, int, float, bool, tuple, type(None)))
_MISSING = object()
_PARTS = {"stdout": ("stdout", "output"), "stderr": ("stderr", "error"), "meta": ("meta", "metadata")}


def read_result(value: Any) -> tuple[Any, bool | None]:
    """The value as plain parts with its word on itself; any other value as it is, with None."""
    kind = type(value)
    if kind in _COMMON or not any(_CLASS_NAME.__get__(base) == _NAME for base in _LINE.__get__(kind)):
        return value, None
    said = _first(value, ("ok", "success"), _MISSING)
    if said is _MISSING:
        return value, None
    ok = bool(said)
    parts = {name: _first(value, names, None) for name, names in _PARTS.items()}
    empty = {"stdout": "", "stderr": "", "meta": {}}
    return dict({"ok": ok}, **{name: empty[name] if part is None else part for name, part in parts.items()}), ok


def _first(value: Any, names: tuple[str, ...], otherwise: Any) -> Any:
    for name in names:
        found = getattr(value, name, _MISSING)
        if found is not _MISSING:
            return found
    return otherwise
