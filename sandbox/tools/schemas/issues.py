"""What is said about places of a schema or of a document: a path such as `root.properties.a.items`, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sandbox.tools.safe_text import NAME_LENGTH, excerpt

ROOT: Final = "root"
MOST_FINDINGS: Final = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or was lost, at one place."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def under(path: str, step: str | int) -> str:
    """The path of a member or an item of what `path` leads to."""
    return f"{path}[{step}]" if isinstance(step, int) else f"{path}.{excerpt(step, NAME_LENGTH)}"


def path_of(steps: Sequence[str | int]) -> str:
    """The path of these steps from the root on."""
    path = ROOT
    for step in steps:
        path = under(path, step)
    return path
