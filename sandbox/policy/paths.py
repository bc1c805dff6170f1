"""Paths of the host that a policy names: written in one way only, so that they compare as text."""

from __future__ import annotations

import posixpath
from typing import Final

from sandbox.policy.quantities import KIB

NEVER_READABLE: Final = ("/proc", "/sys", "/dev", "/run", "/var/run")


def plain_path(path: str) -> str:
    """The same text, when it is one plain place; `ValueError` says why not."""
    if not path.isprintable():
        raise ValueError(f"{path[:80]!r} holds characters that cannot be printed")
    if len(path) > 4 * KIB:
        raise ValueError(f"{path[:80]!r}… is longer than a path can be")
    if not path.startswith("/"):
        raise ValueError(f"{path!r} must be an absolute path")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} must not contain '..'")
    plain = "/" + posixpath.normpath(path).lstrip("/")
    if path != plain:
        raise ValueError(f"{path!r} must be written as {plain!r}")
    return path


def readable_path(path: str) -> str:
    """Refuse what is not one plain place, and what would hand the host's processes, devices or sockets to a tool."""
    if plain_path(path) == "/":
        raise ValueError("'/' would show the whole host")
    for hidden in NEVER_READABLE:
        if is_within(path, parent=hidden) or is_within(hidden, parent=path):
            raise ValueError(f"{path!r} would show {hidden}: the host's processes, devices or sockets")
    return path


def is_within(path: str, *, parent: str) -> bool:
    return path == parent or path.startswith(parent + "/")


def sorted_once(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(items)))
