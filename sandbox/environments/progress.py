"""What an environment's building tells while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["wait", "resolve", "warn", "download", "unpack", "compile", "verify", "publish", "ready"]
"""`warn` is no step: its text is to be read. The last one says that there is nothing to wait for any more."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: which, of what, and how far; `total` is None where nobody knows."""

    stage: Stage
    text: str
    done: int = 0
    total: int | None = None


OnProgress = Callable[[Progress], None]


def nobody(_: Progress) -> None:
    """For those that do not ask."""
