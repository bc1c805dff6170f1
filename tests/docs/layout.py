"""Lay out reference pages: paragraphs, list items and signatures in lines of at most 120 characters."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Final

MAX_LINE: Final = 120


def paragraphs(text: str) -> list[str]:
    """Wrap the paragraphs of a docstring; lists and indented blocks keep their lines."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith(("* ", "- ")):
            lines += paragraph.splitlines()
        elif paragraph.startswith(" "):
            lines += code(textwrap.dedent(paragraph))
        else:
            lines += wrapped(" ".join(paragraph.removesuffix(":").split()))
        lines.append("")
    return lines


def item(term: str, details: str, text: str, *, depth: int = 0) -> list[str]:
    """Format an entry of a list: a term, its details in brackets, and a description."""
    start = f"- {term} ({details})" if details else f"- {term}"
    described = " ".join(text.split())
    return wrapped(f"{start}: {described}" if described else start, indent="  " * depth, next_indent="  " * (depth + 1))


def wrapped(text: str, *, indent: str = "", next_indent: str = "") -> list[str]:
    """Wrap a text; `next_indent` precedes every line after the first."""
    return textwrap.wrap(
        text,
        MAX_LINE,
        initial_indent=indent,
        subsequent_indent=next_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def code(text: str) -> list[str]:
    """Fence a text that keeps its lines."""
    return ["```text", *text.splitlines(), "```"]
