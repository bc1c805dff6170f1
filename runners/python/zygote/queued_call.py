"""A call for which the zygote has no child yet."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Waiting:
    """What was said of it, and as much of its request as has come."""

    __slots__ = ("requests", "said")

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        self.requests: list[memoryview] = []
