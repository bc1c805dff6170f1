"""Measured figures as people read them: rounded, in the unit that suits. Limits are exact and written by the policy."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def with_note(word: str, note: str) -> str:
    """`cgroup`, or `watcher: the engine's clock` where a note explains the word."""
    return f"{word}: {note}" if note else word


def rounded_seconds(seconds: float) -> str:
    """`6.3 ms`, `120 ms`, `1.01 s`, `2 min 5 s`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def rounded_bytes(size: float) -> str:
    """`512 B`, `4.2 MiB`, `512 MiB`."""
    for unit in _UNITS:
        if size < 1023.5 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.1f} {unit}" if size < 99.95 and size != int(size) else f"{size:.0f} {unit}"


def limit_figure(name: str | None, value: object, *, exact: bool, unit: object = None) -> str:
    """A value of the limit of that name in its unit, or in one that was told with it; as it is when there is none."""
    if unit is not None:
        return f"{value} {unit}"
    from sandbox.policy import Limits, format_bytes, format_seconds
    from sandbox.policy.quantities import Unit

    field = Limits.model_fields.get(name or "")
    if field is None or isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if Unit.SECONDS in field.metadata:
        return format_seconds(value) if exact else rounded_seconds(value)
    if Unit.BYTES in field.metadata:
        return format_bytes(int(value)) if exact else rounded_bytes(value)
    return f"{value:.0f}"


def rounded_age(seconds: float) -> str:
    """`just now`, `5 min ago`, `3 h ago`, `12 d ago`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
