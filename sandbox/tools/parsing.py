"""Source text to a syntax tree, or a `SourceError` that shows the place.

`ast.parse` answers bad text not only with SyntaxError: nesting ends in RecursionError or MemoryError, and odd literals
in ValueError or OverflowError. All of them are the text's fault. What it would warn about (an escape such as `\\d`) is
for the author, who sees it when running the file; the engine's own terminal and its `-W error` stay out of it.

Before 3.13 all threads count the depth of their trees in one place. When the garbage collector runs in the middle of
one, and with it Python code that lets another thread parse, both counts are wrong and a good text ends in SystemError.
Our own threads take turns, those of the program around us do not: the text is then parsed again without the collector.
"""

from __future__ import annotations

import ast
import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, Literal, overload

from sandbox.errors import SourceError
from sandbox.tools.caret import pictured
from sandbox.tools.newer_syntax import parse_newer, requires_newer
from sandbox.tools.parse_cost import refuse_costly
from sandbox.tools.safe_text import excerpt

_WIDTH: Final = 80
_BEFORE_CARET: Final = 40
_LONGEST_VERSIONS: Final = 64
# Warning filters belong to the whole process: two threads that set them aside at once would restore the wrong ones.
_filters = Lock()


def parse_module(text: str, *, requires_python: str | None = None) -> ast.Module:
    """The syntax tree of a source text, which may say that it is for a newer Python than this."""
    _refuse_file_name(text)
    refuse_costly(text)
    try:
        return _parse_as_written(text)
    except SyntaxError as error:
        fault = _syntax_fault(text, error)
        raise (_beyond_us(fault, requires_python) if requires_newer(requires_python) else fault) from None
    except (RecursionError, MemoryError):
        raise SourceError("the source is nested too deeply", remedy="split the expression into steps") from None
    except (ValueError, OverflowError, SystemError) as error:
        raise SourceError(f"the source cannot be parsed: {excerpt(str(error))}") from None


def _refuse_file_name(text: str) -> None:
    """Some names of files are good Python, and would be told to hold no function. No tool does without parentheses."""
    name = text.strip()
    if name.endswith(".py") and not {"\n", "(", "#"} & set(name):
        raise SourceError(
            f"{excerpt(name)} is the name of a file, not a source",
            remedy="hand over a pathlib.Path, or the file's text",
        )


def _parse_as_written(text: str) -> ast.Module:
    """Also by a Python that is older than the one the text is written for; a fault is told of the text as it is."""
    try:
        return _parse_quietly(text, mode="exec")
    except SyntaxError:
        newer = parse_newer(text, lambda older: _parse_quietly(older, mode="exec"))
        if newer is None:
            raise
        return newer


def parse_expression(text: str) -> ast.expr | None:
    """The syntax tree of an annotation, or None when it is not an expression."""
    try:
        return _parse_quietly(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, SystemError):
        return None


@overload
def _parse_quietly(text: str, *, mode: Literal["exec"]) -> ast.Module: ...
@overload
def _parse_quietly(text: str, *, mode: Literal["eval"]) -> ast.Expression: ...
def _parse_quietly(text: str, *, mode: str) -> ast.AST:
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, filename="<tool>", mode=mode)
        except SystemError:
            with _no_collector():
                return ast.parse(text, filename="<tool>", mode=mode)


@contextmanager
def _no_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _syntax_fault(text: str, error: SyntaxError) -> SourceError:
    reason = excerpt(error.msg)
    if error.lineno is None:
        return SourceError(f"syntax error: {reason}")
    column = max(error.offset or 1, 1)
    message = f"syntax error: {reason}, line {error.lineno}, column {column}"
    picture = _caret_picture(text, error.lineno, column)
    return SourceError(f"{message}\n{picture}" if picture else message, line=error.lineno, column=column)


def _beyond_us(fault: SourceError, requires_python: str | None) -> SourceError:
    """What may be no fault at all, but syntax that this Python does not know yet."""
    own = ".".join(map(str, sys.version_info[:2]))
    versions = excerpt(str(requires_python), _LONGEST_VERSIONS)
    return SourceError(
        f"the engine runs on Python {own}, which cannot read syntax of newer ones, and the tool requires {versions}: "
        f"{fault.message}",
        line=fault.line,
        column=fault.column,
        remedy="run the engine on a Python as new as the tool's, or write the tool for an older one",
    )


def _caret_picture(text: str, line: int, column: int) -> str:
    """The faulty line, or the part of it around the fault, with a caret below."""
    lines = text.split("\n", line)
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        return ""
    shown, blanks = pictured(lines[line - 1], column, width=_WIDTH, before=_BEFORE_CARET)
    return f"    {shown}\n    {blanks}^"
