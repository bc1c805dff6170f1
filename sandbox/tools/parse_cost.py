"""What parsing a text may cost, estimated from above before the parser sees it.

`ast.parse` cannot be interrupted and holds the interpreter while it works, so a text that would keep it busy has to be
refused beforehand. Measured on CPython 3.11, three things make it slow or hungry:

- many tokens: up to 6 µs and 1.5 KB each when the text is wrong only at its end, because it is then parsed twice;
- many expressions in one f-string (before 3.12): finding each one's place starts again at the front of the string;
- a long streak of combining marks in a name: putting them into normal order takes quadratic time.

Each estimate runs at the speed of `bytes.translate` and `re`, and counts too much rather than too little: words inside
strings count as tokens, because telling strings apart would need a second lexer that agrees with every Python. Lines
that hold nothing but a comment are not counted. One with a brace is, as it may be
inside an f-string.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sandbox.errors import SourceError

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
    """Words and signs in a text: never fewer than half of the tokens Python would find in it."""
    classes = data.translate(_CLASSES)
    starts = classes.count(_SPACE + _WORD) + classes.count(_SIGN + _WORD) + classes.startswith(_WORD)
    return starts + classes.count(_SIGN)


def _refuse_heavy_format_strings(text: str) -> None:
    """Every place that could begin an f-string is taken for one, so that nothing can hide behind a quote."""
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
