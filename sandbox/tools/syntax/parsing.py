"""Parse a source into a syntax tree, or raise a `SourceError` that shows the place.

*Cost.* `ast.parse` cannot be interrupted and holds the interpreter while it works, so a text that would keep it busy is
refused before. Three things make CPython 3.11 slow or hungry, by measurement:

- many tokens: up to 6 µs and 1.5 KB each if the text is wrong only at its end, because it is then parsed twice;
- many expressions in one f-string (before 3.12): the search for each place starts again at the front of the string;
- a long run of combining marks in a name: bringing them into normal order takes quadratic time.

Each estimate runs at the speed of `bytes.translate` and `re`, and counts too much rather than too little: words inside
strings count as tokens, because telling strings apart would need a second lexer that agrees with every Python. Lines
with nothing but a comment are not counted, unless they hold a brace and so may be inside an f-string.

*Newer syntax.* A tool may be written for a newer Python than the engine's. A `type` statement becomes an assignment,
and the brackets of `class Page[T]:` are blanked out of the text, so that every line stays where it is; the contents of
the brackets go into `type_params` of the tree, as in newer Pythons. Other new syntax is not read. If the tool requires
a newer Python, the error mentions that.

*Errors.* Nesting ends in RecursionError or MemoryError, and odd literals in ValueError or OverflowError; all of them
are faults of the text. Warnings, such as for the escape `\\d`, are for the author, who sees them when running the file.

Before 3.13 all threads count the depth of their trees in one place. If the garbage collector runs in the middle of a
parse, and with it Python code that lets another thread parse, both counts are wrong and a good text ends in
SystemError. Our own threads take turns, but other threads of the program do not: the text is then parsed again without
the collector.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, Literal, overload

from sandbox.errors import SourceError
from sandbox.tools.safe_text import caret_picture, excerpt

MAX_TOKENS: Final = 100_000
MAX_FORMAT_STEPS: Final = 500_000_000
MAX_FORMAT_CHARACTERS: Final = 20_000_000
MAX_MARKS: Final = 32

_WORD, _SPACE, _SIGN = b"w", b" ", b"."
_CLASSES: Final = b"".join(
    _SPACE
    if chr(code).isspace() and code < 128
    else _WORD
    if chr(code).isalnum() or code >= 128 or code == 95
    else _SIGN
    for code in range(256)
)
_COMMENT_LINE = re.compile(rb"^[ \t\f]*#[^{\n]*$", re.MULTILINE)
_FORMAT_START = re.compile(r"[fFtT][rR]?(?:'''|\"\"\"|'|\")|[rR][fFtT](?:'''|\"\"\"|'|\")")
_FORMAT_BODY: Final = {
    "'": re.compile(r"(?:[^'\\\n]|\\.)*+", re.DOTALL),
    '"': re.compile(r'(?:[^"\\\n]|\\.)*+', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]|\\.|'(?!''))*+", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*+', re.DOTALL),
}
_FOREIGN_RUN = re.compile(rf"[^\x00-\x7f]{{{MAX_MARKS + 1},}}")


def refuse_costly(text: str) -> None:
    """Raise `SourceError` when parsing this text might take more than about a second."""
    _refuse_many_tokens(text.encode())
    _refuse_heavy_format_strings(text)
    _refuse_mark_streaks(text)


def _refuse_many_tokens(data: bytes) -> None:
    if count_tokens(data) <= MAX_TOKENS or count_tokens(_COMMENT_LINE.sub(b"", data)) <= MAX_TOKENS:
        return
    raise SourceError(
        f"the source is too long to read: it has more than {MAX_TOKENS} words and signs",
        remedy="hand large data over as an argument or a file",
    )


def count_tokens(data: bytes) -> int:
    """Return the number of words and signs in a text, at least half of the tokens that Python would find in it."""
    classes = data.translate(_CLASSES)
    starts = classes.count(_SPACE + _WORD) + classes.count(_SIGN + _WORD) + classes.startswith(_WORD)
    return starts + classes.count(_SIGN)


def _refuse_heavy_format_strings(text: str) -> None:
    """Refuse f-strings with many expressions.

    Every place that could begin an f-string counts as one, so that nothing can hide behind a quote.
    """
    most = len(text) * (text.count("'") + text.count('"'))
    if most <= MAX_FORMAT_CHARACTERS and most * text.count("{") <= MAX_FORMAT_STEPS:
        return
    steps = characters = 0
    for number, start in enumerate(_FORMAT_START.finditer(text)):
        body = _FORMAT_BODY[start[0].lstrip("fFtTrR")].match(text, start.end())
        assert body is not None
        characters += len(body[0])
        steps += body[0].count("{") * len(body[0])
        if steps > MAX_FORMAT_STEPS or characters > MAX_FORMAT_CHARACTERS or number > MAX_TOKENS:
            raise SourceError(
                "an f-string holds too many expressions",
                line=text.count("\n", 0, start.start()) + 1,
                remedy="build long text with str.join",
            )


def _refuse_mark_streaks(text: str) -> None:
    if text.isascii():
        return
    for run in _FOREIGN_RUN.finditer(text):
        if _longest_streak(run[0]) > MAX_MARKS:
            raise SourceError(
                f"more than {MAX_MARKS} combining marks follow each other",
                line=text.count("\n", 0, run.start()) + 1,
                remedy="write them as escapes",
            )


def _longest_streak(run: str) -> int:
    longest = streak = 0
    for letter in run:
        streak = streak + 1 if unicodedata.category(letter).startswith("M") else 0
        longest = max(longest, streak)
    return longest


_BRACKET = r"\[(?P<inner>(?:[^\[\]]|\[[^\[\]]{0,200}\]){1,300})\]"
_GENERIC = re.compile(
    rf"^(?P<before>[ \t]*(?:async[ \t]+def|def|class|type)[ \t]+(?P<name>[^\W\d]\w*)[ \t]*){_BRACKET}", re.MULTILINE
)
_TYPE_STATEMENT = re.compile(
    r"^(?P<indent>[ \t]*)type(?P<gap>[ \t]+)(?P<name>[^\W\d]\w*)(?=(?:[ \t]|\\\n)*=[^=])", re.MULTILINE
)

_LEAST: Final = re.compile(r"(?:>=?|==|~=)\s{0,9}(\d{1,4})(?:\.(\d{1,4}))?")
"""The lower bounds in a `requires-python`."""


def requires_newer(requires_python: str | None) -> bool:
    """Return whether a tool says that it is for a newer Python than this one."""
    least = _LEAST.findall(requires_python or "")
    return any((int(major), int(minor or 0)) > sys.version_info[:2] for major, minor in least)


def parse_newer(text: str, parse: Callable[[str], ast.Module]) -> ast.Module | None:
    """Return the tree of a text that only a newer Python parses; None where nothing of it is known to be newer."""
    if sys.version_info >= (3, 12):
        return None
    bare, parameters = _without_brackets(text)
    older = _TYPE_STATEMENT.sub(r"\g<indent>\g<name>\g<gap>    ", bare)
    if older == text:
        return None
    module = parse(older)
    for node in ast.walk(module) if parameters else ():
        inner = parameters.get((getattr(node, "lineno", 0), _name_of(node)))
        if inner is not None:
            node.type_params = _parse_parameters(inner, parse)  # type: ignore[attr-defined]  # Python 3.12
    return module


def _without_brackets(text: str) -> tuple[str, dict[tuple[int, str], str]]:
    """Return the text with blanks for type parameters, and these, by the line and the name of what they belong to."""
    parameters: dict[tuple[int, str], str] = {}
    pieces: list[str] = []
    line, end = 1, 0
    for found in _GENERIC.finditer(text):
        line += text.count("\n", end, found.start())
        parameters[line, found["name"]] = found["inner"]
        bracket = text[found.end("before") : found.end()]
        pieces += [text[end : found.end("before")], re.sub(r"[^\n]", " ", bracket).replace("\n", "\\\n")]
        line += text.count("\n", found.start(), found.end())
        end = found.end()
    return "".join([*pieces, text[end:]]), parameters


def _name_of(node: ast.AST) -> str:
    """Return the name that a statement binds."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else getattr(node, "name", "") or ""


def _parse_parameters(inner: str, parse: Callable[[str], ast.Module]) -> list[ast.arg]:
    (function,) = parse(f"def _(\n{inner}\n): ...").body
    assert isinstance(function, ast.FunctionDef)
    listed = (*function.args.args, function.args.vararg, *function.args.kwonlyargs, function.args.kwarg)
    return [each for each in listed if each is not None]


_WIDTH: Final = 80
_BEFORE_CARET: Final = 40
_MAX_VERSIONS_LENGTH: Final = 64
# Warning filters belong to the whole process: two threads that set them aside at once would restore the wrong ones.
_filters = Lock()


def parse_module(text: str, *, requires_python: str | None = None) -> ast.Module:
    """Return the syntax tree of a source text, which may say that it is for a newer Python than this."""
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
    """Refuse a file name: some are valid Python without a function, and no tool does without parentheses."""
    name = text.strip()
    if name.endswith(".py") and not {"\n", "(", "#"} & set(name):
        raise SourceError(
            f"{excerpt(name)} is the name of a file, not a source",
            remedy="hand over a pathlib.Path, or the file's text",
        )


def _parse_as_written(text: str) -> ast.Module:
    """Parse the text, also if it is written for a newer Python; an error refers to the text as it is."""
    try:
        return _parse_quietly(text, mode="exec")
    except SyntaxError:
        newer = parse_newer(text, lambda older: _parse_quietly(older, mode="exec"))
        if newer is None:
            raise
        return newer


def parse_expression(text: str) -> ast.expr | None:
    """Return the syntax tree of an annotation, or None when it is not an expression."""
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
    """Return the error for a text that may use newer syntax than this Python knows."""
    own = ".".join(map(str, sys.version_info[:2]))
    versions = excerpt(str(requires_python), _MAX_VERSIONS_LENGTH)
    return SourceError(
        f"the engine runs on Python {own}, which cannot read syntax of newer ones, and the tool requires {versions}: "
        f"{fault.message}",
        line=fault.line,
        column=fault.column,
        remedy="run the engine on a Python as new as the tool's, or write the tool for an older one",
    )


def _caret_picture(text: str, line: int, column: int) -> str:
    """Return the faulty line, or the part of it around the fault, with a caret below."""
    lines = text.split("\n", line)
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        return ""
    shown, blanks = caret_picture(lines[line - 1], column, width=_WIDTH, before=_BEFORE_CARET)
    return f"    {shown}\n    {blanks}^"
