"""Docstrings: what a function does, and what each of its parameters is.

Google, numpy, reST and epydoc forms are parsed by `docstring_parser`. Where a text shows the marks of one form only, it
is asked for that one; trying all of them, as it does by itself, takes ten times as long. Its types and defaults are
never used, the signature says those. A `Keyword Args:` section, which that parser drops, is read as the `Args:` it is.
Text of several lines stays as it was written. One line that is not as Google has it does not cost the others: see
`google_text`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from docstring_parser import Docstring, DocstringParam, ParseError, epydoc, google, numpydoc, parse, rest
from docstring_parser.common import DocstringExample, DocstringReturns

MAX_CHARACTERS: Final = 64 * 1024

_NO_TITLE: Final = "."
_KEYWORD_SECTION = re.compile(r"[ \t]*(?:Keyword Args|Keyword Arguments|Kwargs|Other Parameters):[ \t]*")
_EXAMPLES = re.compile(r"^(?:Examples?)(?:::?|\n-{3,})[ \t]*\n", re.MULTILINE)
_SECTION = re.compile(
    r"^(?:Args|Arguments|Parameters|Params|Raises|Exceptions|Except|Attributes|Returns|Yields|Keyword Args"
    r"|Keyword Arguments|Other Parameters|Kwargs|Note|Notes|Warning|Warnings|See Also|References)(?::|\n-{3,})[ \t]*$",
    re.MULTILINE,
)
_FORMS: Final = (
    (re.compile(r"^[ \t]*(?:Arg(?:ument)?s|Param(?:eter)?s|Raises|Attributes|Returns):[ \t]*$", re.M), google.parse),
    (re.compile(r"^-{3,}[ \t]*$", re.M), numpydoc.parse),
    (re.compile(r"^[ \t]*:(?:param(?:eter)?|arg(?:ument)?|key|returns?|raises?|r?type)\b", re.M), rest.parse),
    (re.compile(r"^[ \t]*@(?:param|return|raise|r?type)\b", re.M), epydoc.parse),
)


@dataclass(frozen=True, slots=True)
class Documentation:
    """What a docstring says."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The text for each parameter that it names; empty where it names one and says nothing."""
    returns: str | None = None
    has_parameters: bool = False
    """Whether there is a section of parameters at all."""


@lru_cache(maxsize=256)
def read_docstring(docstring: str) -> Documentation:
    """What it says; text that no form fits is a description."""
    text = inspect.cleandoc(docstring[:MAX_CHARACTERS])
    body, keywords = _without_keyword_section(text)
    try:
        parsed = _parser_of(body)(_headed(google_text(body)))
        extra = google.parse(_headed(keywords)) if keywords else Docstring()
    except (ParseError, ValueError, IndexError, KeyError, AttributeError, RecursionError):
        return Documentation(description=text or None)
    parameters = {name: (each.description or "").strip() for each, name in [*_named(parsed), *_named(extra)]}
    return Documentation(
        description=_description(parsed, body),
        parameters=parameters,
        returns=next((each.description or "" for each in parsed.meta if isinstance(each, DocstringReturns)), None),
        has_parameters=bool(parameters),
    )


def _parser_of(text: str) -> Callable[[str], Docstring]:
    """The form that shows itself in the text; where two do, the parser tries all and takes what finds most."""
    shown = [each for marks, each in _FORMS if marks.search(text)]
    return shown[0] if len(shown) == 1 else parse if shown else google.parse


def _headed(text: str) -> str:
    """A text that begins with a section would be taken for a description whole."""
    return f"{_NO_TITLE}\n\n{text}" if _SECTION.match(text) else text


def _without_keyword_section(text: str) -> tuple[str, str]:
    """The text without its section of keyword arguments, and that section as one of arguments."""
    kept: list[str] = []
    taken: list[str] = []
    indent: int | None = None
    for line in text.split("\n"):
        opening = _KEYWORD_SECTION.match(line)
        depth = len(line) - len(line.lstrip())
        if opening is not None:
            indent = depth
        elif indent is not None and (not line.strip() or depth > indent):
            taken.append(line)
        else:
            indent = None
            kept.append(line)
    return "\n".join(kept), "\n".join(["Args:", *taken]) if taken else ""


def _named(parsed: Docstring) -> Iterator[tuple[DocstringParam, str]]:
    for each in parsed.meta:
        if isinstance(each, DocstringParam):
            for name in each.arg_name.split(","):
                yield each, name.strip().lstrip("*").strip("`")


def _description(parsed: Docstring, text: str) -> str | None:
    """Short and long description, and the examples after them."""
    short = None if parsed.short_description == _NO_TITLE else parsed.short_description
    if short and parsed.long_description and not parsed.blank_after_short_description:  # one paragraph, as written
        parts = [f"{short}\n{parsed.long_description}", _examples(parsed, text)]
    else:
        parts = [short, parsed.long_description, _examples(parsed, text)]
    return "\n\n".join(part.strip() for part in parts if part and part.strip()) or None


def _examples(parsed: Docstring, text: str) -> str | None:
    """The section as it stands in the text: what it shows is code, and no parser's business."""
    found = _EXAMPLES.search(text)
    if found is None:
        shown = [each.description for each in parsed.meta if isinstance(each, DocstringExample) and each.description]
        return "Examples:\n" + "\n".join(shown) if shown else None
    following = _SECTION.search(text, found.end())
    body = text[found.end() : following.start() if following else len(text)].rstrip()
    return f"Examples:\n{body}" if body else None


# Docstrings in Google's form, brought into what a strict parser of it takes.
#
# People write sections a little differently, and models that write tools do so even more. A parser that asks for a
# colon
# in each line of `Args:` gives up on the whole text for one that has none, and text below the last section is lost to
# it.
# So bullets and dashes become the form that was meant, a line without a colon belongs to the parameter above it, a
# section that says nothing is left out, and what is no section stands before all sections. Each line is looked at once.


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
        elif ":" in (named := _with_colon(line.strip())):
            told.append(f"{_INDENT}{named}")
        elif told:
            told.append(f"{_INDENT}{_INDENT}{named}")
    return told


def _with_colon(line: str) -> str:
    """`name: text` of `- name: text` and of `name - text`."""
    bullet = _BULLET.match(line)
    line = line[bullet.end() :] if bullet else line
    dashed = _DASHED.match(line)
    return f"{dashed['name']}: {line[dashed.end() :]}" if dashed else line
