"""How an index answers: with what was asked for, that there is no such thing, or not as an index.

The last two are told apart everywhere, since they call for different remedies: "no such package" is the caller's to
mend, a `Fault` is the index's; or that of whoever set this machine up to ask it, where it has a `remedy`, and then no
waiting helps. A fault's text is made by the engine and repeats nothing that an index or a proxy said,
nor any credentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal


class Absent(Exception):
    """The index answers, and has no such thing."""


Reach = Literal["attempt", "page", "index"]


class Fault(Exception):
    """The index does not do its part; `reach` says what else it would not do: only this attempt failed, this page or
    file is broken, or the whole index is.
    """

    def __init__(self, reason: str, *, reach: Reach = "page", remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.reach = reach
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class IndexFault:
    """An index that did not do its part, and how."""

    url: str
    """Without anything that may be secret."""
    reason: str
    remedy: str | None = None
    """What is to be done about it; none: it may pass."""
    package: str | None = None
    """Whose page it is that was asked for, where others may be as they should."""


@dataclass(slots=True)
class Reply:
    """A file, or a part of one, about to be read."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[bytes] = field(repr=False)
