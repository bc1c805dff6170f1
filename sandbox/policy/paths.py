"""Host paths in a policy: each path has one spelling, so that paths compare as text."""

from __future__ import annotations

import posixpath
from typing import Final

from sandbox.policy.quantities import KIB

NEVER_READABLE: Final = ("/proc", "/sys", "/dev", "/run", "/var/run")


def check_path(path: str) -> str:
    """Return the path if it is absolute and in its normal form; otherwise raise `ValueError`."""
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


def check_readable_path(path: str) -> str:
    """Return the path as `check_path` does, and refuse paths that show processes, devices or sockets of the host."""
    if check_path(path) == "/":
        raise ValueError("'/' would show the whole host")
    for hidden in NEVER_READABLE:
        if is_within(path, parent=hidden) or is_within(hidden, parent=path):
            raise ValueError(f"{path!r} would show {hidden}: the host's processes, devices or sockets")
    return path


def is_within(path: str, *, parent: str) -> bool:
    return path == parent or path.startswith(parent + "/")


def sort_unique(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(items)))
