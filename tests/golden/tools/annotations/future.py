from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class Later:
    x: int


def f(a: Optional[Later]) -> None:
    """Do it.

    Args:
        a: The a.
    """
