"""Foreign text made fit for a message: short, on one line, and unable to talk to a terminal."""

from __future__ import annotations

from collections.abc import Iterable

NAME_LENGTH = 64
NAMES_SHOWN = 20
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def excerpt(text: str, limit: int = 200) -> str:
    """At most `limit` characters of `text`; whatever is not printable is replaced one for one."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return printable(cut)


def printable(text: str) -> str:
    """The same number of characters, all of them printable."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _UNPRINTABLE for letter in text)


def name_list(names: Iterable[str]) -> str:
    """Names for a message: each one cut, and the rest counted when there are many."""
    listed = [excerpt(name, NAME_LENGTH) for name in names]
    if len(listed) <= NAMES_SHOWN:
        return ", ".join(listed)
    return ", ".join(listed[:NAMES_SHOWN]) + f" and {len(listed) - NAMES_SHOWN} more"
