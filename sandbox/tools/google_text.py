"""Docstrings in Google's form, brought into what a strict parser of it takes.

People write sections a little differently, and models that write tools do so even more. A parser that asks for a colon
in each line of `Args:` gives up on the whole text for one that has none, and text below the last section is lost to it.
So bullets and dashes become the form that was meant, a line without a colon belongs to the parameter above it, a
section that says nothing is left out, and what is no section stands before all sections. Each line is looked at once.
"""

from __future__ import annotations

import re
from typing import Final

_HEADER = re.compile(
    r"(?P<parameters>Args|Arguments|Parameters|Params|Attributes):|(?P<unread>Raises|Exceptions|Except):"
    r"|(?P<examples>Examples?):|(?P<other>Returns|Yields):"
)
_BULLET = re.compile(r"[-*•+][ \t]+")
_DASHED = re.compile(r"(?P<name>`?\*{0,2}\w{1,64}`?(?:[ \t]?\([^()]{0,200}\))?)[ \t]+[-\u2013\u2014]{1,2}[ \t]+")
_INDENT: Final = "    "


def google_text(text: str) -> str:
    """The same text with its sections last, and a colon in each line that names a parameter."""
    free, sections = _parted(text)
    if not sections:
        return text
    told = [line for section in sections for line in _told(*section)]
    return "\n".join([*free, "", *told])


def _parted(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The lines that are in no section, and those of each section, by what it is."""
    free: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    kind, lines = "", free
    for line in text.split("\n"):
        header = _HEADER.fullmatch(line.rstrip())
        if header is not None:
            kind, lines = header.lastgroup or "", [line]
            sections.append((kind, lines))
        elif lines is not free and kind != "examples" and line[:1].strip():
            lines = free
            free += [line] if free and not free[-1].strip() else ["", line]
        else:
            lines.append(line)
    return free, sections


def _told(kind: str, lines: list[str]) -> list[str]:
    """A section as the parser takes it."""
    if kind == "unread":
        return []
    if kind != "parameters":
        return lines
    named = _with_colons(lines[1:])
    return [lines[0], *named] if named else []


def _with_colons(lines: list[str]) -> list[str]:
    """Lines of parameters: each names one, or belongs to the one above it."""
    told: list[str] = []
    indent: int | None = None
    for line in lines:
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None and line.strip() else indent
        if indent is None or not line.strip():
            told += [line] if told else []
        elif depth > indent:
            told += [f"{_INDENT}{line[indent:]}"] if told else []
        elif ":" in (named := _named(line.strip())):
            told.append(f"{_INDENT}{named}")
        elif told:
            told.append(f"{_INDENT}{_INDENT}{named}")
    return told


def _named(line: str) -> str:
    """`name: text` of `- name: text` and of `name - text`."""
    bullet = _BULLET.match(line)
    line = line[bullet.end() :] if bullet else line
    dashed = _DASHED.match(line)
    return f"{dashed['name']}: {line[dashed.end() :]}" if dashed else line
