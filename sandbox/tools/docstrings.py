"""Docstrings: what a function does, and what each of its parameters is.

Google, numpy and reST forms are parsed by `docstring_parser`, which finds out by itself which one it is; its types and
defaults are never used, the signature says those. A `Keyword Args:` section, which that parser drops, is read as the
`Args:` it is. Text of several lines stays as it was written.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from docstring_parser import Docstring, DocstringParam, ParseError, parse
from docstring_parser.common import DocstringExample, DocstringReturns

MAX_CHARACTERS: Final = 64 * 1024

_NO_TITLE: Final = "."
_KEYWORD_SECTION = re.compile(r"[ \t]*(?:Keyword Args|Keyword Arguments|Kwargs):[ \t]*")
_EXAMPLES = re.compile(r"^(?:Examples?)(?:::?|\n-{3,})[ \t]*\n", re.MULTILINE)
_SECTION = re.compile(
    r"^(?:Args|Arguments|Parameters|Params|Raises|Exceptions|Except|Attributes|Returns|Yields|Keyword Args"
    r"|Keyword Arguments|Other Parameters|Kwargs|Note|Notes|Warning|Warnings|See Also|References)(?::|\n-{3,})[ \t]*$",
    re.MULTILINE,
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


def read_docstring(docstring: str) -> Documentation:
    """What it says; text that no form fits is a description."""
    text = inspect.cleandoc(docstring[:MAX_CHARACTERS])
    body, keywords = _without_keyword_section(text)
    try:
        parsed, extra = parse(_headed(body)), parse(_headed(keywords)) if keywords else Docstring()
    except (ParseError, ValueError, IndexError, KeyError, AttributeError, RecursionError):
        return Documentation(description=text or None)
    parameters = {name: (each.description or "").strip() for each, name in [*_named(parsed), *_named(extra)]}
    return Documentation(
        description=_description(parsed, body),
        parameters=parameters,
        returns=next((each.description or "" for each in parsed.meta if isinstance(each, DocstringReturns)), None),
        has_parameters=bool(parameters),
    )


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
