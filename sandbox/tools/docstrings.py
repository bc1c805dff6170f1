"""Read docstrings: the purpose of a function, and the meaning of each of its parameters.

`docstring_parser` parses the Google, numpy, reST and epydoc forms. If a text shows the marks of one form only, that
form alone is tried, because trying all forms takes ten times as long. Types and defaults come from the signature and
never from the text. A `Keyword Args:` section, which the parser drops, is read as `Args:`. Text of several lines stays
as written.

A strict parser gives up on a whole text for one line without a colon in `Args:`, and loses the text below the last
section. So the text is first brought into strict form: bullets and dashes become colons, a line without a colon belongs
to the parameter above it, empty sections go, and text outside of sections comes first. Each line is looked at once.
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
    """The content of a docstring."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The text for each parameter that it names; empty where it names one and says nothing."""
    returns: str | None = None
    has_parameters: bool = False
    """Whether there is a section of parameters at all."""


@lru_cache(maxsize=256)
def read_docstring(docstring: str) -> Documentation:
    """Return the content; a text that fits no form is a description."""
    text = inspect.cleandoc(docstring[:MAX_CHARACTERS])
    body, keywords = _without_keyword_section(text)
    try:
        parsed = _parser_of(body)(_add_title(google_text(body)))
        extra = google.parse(_add_title(keywords)) if keywords else Docstring()
    except (ParseError, ValueError, IndexError, KeyError, AttributeError, RecursionError):
        return Documentation(description=text or None)
    parameters = {
        name: (each.description or "").strip() for each, name in [*_parameter_names(parsed), *_parameter_names(extra)]
    }
    return Documentation(
        description=_description(parsed, body),
        parameters=parameters,
        returns=next((each.description or "" for each in parsed.meta if isinstance(each, DocstringReturns)), None),
        has_parameters=bool(parameters),
    )


def _parser_of(text: str) -> Callable[[str], Docstring]:
    """Return the form that shows itself in the text; where two do, the parser tries all and takes what finds most."""
    shown = [each for marks, each in _FORMS if marks.search(text)]
    return shown[0] if len(shown) == 1 else parse if shown else google.parse


def _add_title(text: str) -> str:
    """Return a text that begins with a section would be taken for a description whole."""
    return f"{_NO_TITLE}\n\n{text}" if _SECTION.match(text) else text


def _without_keyword_section(text: str) -> tuple[str, str]:
    """Return the text without its section of keyword arguments, and that section as one of arguments."""
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


def _parameter_names(parsed: Docstring) -> Iterator[tuple[DocstringParam, str]]:
    for each in parsed.meta:
        if isinstance(each, DocstringParam):
            for name in each.arg_name.split(","):
                yield each, name.strip().lstrip("*").strip("`")


def _description(parsed: Docstring, text: str) -> str | None:
    """Return the short and the long description, and the examples after them."""
    short = None if parsed.short_description == _NO_TITLE else parsed.short_description
    if (
        short and parsed.long_description and not parsed.blank_after_short_description
    ):  # a single paragraph stays as written
        parts = [f"{short}\n{parsed.long_description}", _examples(parsed, text)]
    else:
        parts = [short, parsed.long_description, _examples(parsed, text)]
    return "\n\n".join(part.strip() for part in parts if part and part.strip()) or None


def _examples(parsed: Docstring, text: str) -> str | None:
    """Return the section as it stands in the text: what it shows is code, and no parser's business."""
    found = _EXAMPLES.search(text)
    if found is None:
        shown = [each.description for each in parsed.meta if isinstance(each, DocstringExample) and each.description]
        return "Examples:\n" + "\n".join(shown) if shown else None
    following = _SECTION.search(text, found.end())
    body = text[found.end() : following.start() if following else len(text)].rstrip()
    return f"Examples:\n{body}" if body else None


_HEADER = re.compile(
    r"(?P<parameters>Args|Arguments|Parameters|Params|Attributes):|(?P<unread>Raises|Exceptions|Except):"
    r"|(?P<examples>Examples?):|(?P<other>Returns|Yields):"
)
_BULLET = re.compile(r"[-*•+][ \t]+")
_DASHED = re.compile(r"(?P<name>`?\*{0,2}\w{1,64}`?(?:[ \t]?\([^()]{0,200}\))?)[ \t]+[-\u2013\u2014]{1,2}[ \t]+")
_INDENT: Final = "    "


def google_text(text: str) -> str:
    """Return the same text with its sections last, and a colon in each line that names a parameter."""
    free, sections = _split_sections(text)
    if not sections:
        return text
    strict = [line for section in sections for line in _strict_section(*section)]
    return "\n".join([*free, "", *strict])


def _split_sections(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the lines that are in no section, and those of each section, by what it is."""
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


def _strict_section(kind: str, lines: list[str]) -> list[str]:
    """Return a section as the parser takes it."""
    if kind == "unread":
        return []
    if kind != "parameters":
        return lines
    named = _with_colons(lines[1:])
    return [lines[0], *named] if named else []


def _with_colons(lines: list[str]) -> list[str]:
    """Return lines that each name a parameter, or belong to the line above."""
    strict: list[str] = []
    indent: int | None = None
    for line in lines:
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None and line.strip() else indent
        if indent is None or not line.strip():
            strict += [line] if strict else []
        elif depth > indent:
            strict += [f"{_INDENT}{line[indent:]}"] if strict else []
        elif ":" in (named := _with_colon(line.strip())):
            strict.append(f"{_INDENT}{named}")
        elif strict:
            strict.append(f"{_INDENT}{_INDENT}{named}")
    return strict


def _with_colon(line: str) -> str:
    """Return `name: text` for `- name: text` and for `name - text`."""
    bullet = _BULLET.match(line)
    line = line[bullet.end() :] if bullet else line
    dashed = _DASHED.match(line)
    return f"{dashed['name']}: {line[dashed.end() :]}" if dashed else line
