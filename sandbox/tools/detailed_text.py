"""The long description of a tool, for prompts, from what its author wrote in a docstring.

Authors write the same few things under many headers: with the colon inside or outside the asterisks, with an emoji or
without, on the same line or below. Whatever the form, it comes out in one: what it is, what is important, when to use
it, how it differs, its parameters, its examples.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Final

MAX_CHARACTERS: Final = 64 * 1024
NOTHING_DETAILED: Final = "*No detailed documentation available.*"
_IMPORTANT: Final = ("critical", "important", "warning")
_USES: Final = ("use cases", "when to use", "usage", "why use this tool", "benefits")
_DIFFERENCES: Final = ("key differences", "why use this instead", "when to use vs", "vs")
_ARGUMENTS: Final = ("args", "arguments", "parameters")
_EXAMPLES: Final = ("examples", "example")
_OTHERS: Final = ("returns", "raises", "yields", "note", "notes", "attributes", "keyword args")
_EVERY: Final = (*_IMPORTANT, *_USES, *_DIFFERENCES, *_ARGUMENTS, *_EXAMPLES, *_OTHERS)
# Longer titles first: "when to use vs" is not "when to use" with something behind it.
_TITLES: Final = "|".join(sorted((re.escape(each) for each in _EVERY), key=len, reverse=True))
_HEADER = re.compile(
    rf"^[ \t]*(?:[^\w\s*`]+[ \t]*)?"  # an emoji, a hash or a bullet
    rf"(?:\*\*[ \t]*(?:[^\w\s*`]+[ \t]*)?(?P<bold>{_TITLES})[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:|\*\*(?=[ \t]*$))"
    rf"|(?P<plain>{_TITLES})[ \t]*:)"
    rf"[ \t]*(?P<rest>.*)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Section:
    """A header, in lower case, and the text that belongs to it."""

    title: str
    text: str


def detailed_description(docstring: str | None, *, arguments: str | None, fallback: str) -> str:
    """All that is said of a tool; `arguments` is the docstring of the method that takes them, if it is another."""
    if docstring is None or not docstring.strip():
        return f"{fallback}\n\n{NOTHING_DETAILED}"
    introduction, sections = _parted(docstring[:MAX_CHARACTERS])
    _, inner = _parted(arguments[:MAX_CHARACTERS]) if arguments else ("", [])
    parts = [introduction.strip().partition("\n\n")[0].strip()]
    parts += _told("⚠️ **Important**", _first(sections, _IMPORTANT), separator=": ")
    parts += _told("**Use cases**", _first(sections, _USES))
    parts += _told("**Key differences**", _first(sections, _DIFFERENCES))
    parts += _told("**Parameters**", _first(inner, _ARGUMENTS) or _first(sections, _ARGUMENTS))
    parts += _told("**Examples**", _first(sections, _EXAMPLES) or _first(inner, _EXAMPLES))
    return "\n\n".join(part for part in parts if part)


def _parted(docstring: str) -> tuple[str, list[_Section]]:
    """What stands before the first header, and the sections in their order."""
    introduction: list[str] = []
    sections: list[_Section] = []
    title, lines = "", introduction
    for line in inspect.cleandoc(docstring).split("\n"):
        header = _HEADER.match(line)
        if header is None:
            lines.append(line)
            continue
        if title:
            sections.append(_Section(title, _joined(lines)))
        title, lines = (header["bold"] or header["plain"]).lower(), [header["rest"]]
    if title:
        sections.append(_Section(title, _joined(lines)))
    return "\n".join(introduction), sections


def _joined(lines: list[str]) -> str:
    return "\n".join([lines[0].strip(), inspect.cleandoc("\n".join(["", *lines[1:]]))]).strip()


def _first(sections: list[_Section], titles: tuple[str, ...]) -> str | None:
    """The text under the title that counts most, and is there."""
    found = {section.title: section.text for section in reversed(sections) if section.text}
    return next((found[title] for title in titles if title in found), None)


def _told(title: str, text: str | None, *, separator: str = ":\n") -> list[str]:
    return [] if text is None else [f"{title}{separator}{text}"]
