"""The progress that the building of an environment reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["wait", "resolve", "warn", "download", "unpack", "compile", "verify", "publish", "ready"]
"""`warn` is no step: its text is to be read. The last one says that there is nothing to wait for any more."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A step: which, of what, and how far; `total` is None if it is unknown."""

    stage: Stage
    text: str
    done: int = 0
    total: int | None = None


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Take a report that no caller asked for."""
