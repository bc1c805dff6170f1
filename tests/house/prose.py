"""Find prose that breaks the rules of plain English: `python -m tests.house.prose PATH...`.

The checker reads docstrings, comments, messages (strings of two words or more) and function names of Python files, the
text of Markdown files, and comments and descriptions of TOML files. Text in backticks or quotes is data and is skipped;
so is a string that parses as Python source. `# prose: why` (in Markdown `<!-- prose: why -->`) excuses a rare line: at
the end of that line, on the last line of a longer text, or alone on the line before.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import textwrap
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

MAX_TEST_NAME: Final = 70
SUFFIXES: Final = (".py", ".md", ".toml")
# "is None" with a capital is Python's own `None`.
REFUSED: Final = re.compile(
    r"\b(told|whoever|nobody|somebody|beside|so\s+many|mend(?:s|ed|ing)?|for\s+ever|be\s+it|in\s+vain"
    r"|that\s+is\s+to\s+be|is\s+(?-i:none))\b",
    re.IGNORECASE,
)
_STARTS: Final = r"(It|They|One|Those|These|What|Whoever|Of)(?![\w-])"
_FIRST_WORD: Final = re.compile(r"\A[\s*+-]*" + _STARTS, re.IGNORECASE)
_LATER_SENTENCE: Final = re.compile(r"(?:[.!?][\"')\]]*\s+|\n\s*\n\s*|\n\s*(?:[-*+]|\d+[.)])\s+)" + _STARTS)
_PRONOUN: Final = re.compile(
    r"\A\s*(I|we|us|you|he|she|it|they|them|one|that|these|those|none|nothing|something|everything|anything"
    r"|what|whatever|who|whom|whose|whoever|which|(?:any|every|no|some)(?:body|one)"
    r"|my|our|your|his|her|its|their)(?![\w-])",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(
    r"```.*?```|``.+?``|`[^`]*`|\"[^\"]{1,200}?\"|“[^”]*”|(?<!\w)'[^'\n]*'(?!\w)", flags=re.DOTALL
)
_EXCUSE: Final = re.compile(r"(#|<!--)\s*prose:\s*\w")
_DIRECTIVE: Final = re.compile(r"\s*(prose:|noqa\b|type:|mypy:|fmt:|ruff:|pragma:|!)")
_TOML_TOKEN: Final = re.compile(
    r'"""(?:\\.|.)*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|(?P<comment>#[^\n]*)', flags=re.DOTALL
)
_TOML_DESCRIPTION: Final = re.compile(
    r"^\s*description\s*=\s*(?P<text>\"\"\".*?\"\"\"|\"[^\n]*)", flags=re.DOTALL | re.M
)
_MARKDOWN_CODE: Final = re.compile(r"^ *(```|~~~).*?^ *\1|<!--.*?-->|\]\([^)\s]*\)|<https?:[^>]*>", re.DOTALL | re.M)


class Kind(StrEnum):
    """Where a text stands, which decides the rules it is held to."""

    DOCSTRING = "docstring"
    COMMENT = "comment"
    MESSAGE = "message"
    NAME = "function name"
    PARAGRAPH = "paragraph"
    PHRASE = "phrase"


_HAS_SENTENCES: Final = {Kind.DOCSTRING, Kind.COMMENT, Kind.PARAGRAPH}


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a file, from its first line to its last."""

    kind: Kind
    words: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A broken rule, at a line of a file."""

    line: int
    problem: str


def check_file(path: Path) -> list[Finding]:
    """Return every broken rule of a file, in the order of its lines."""
    try:
        source = path.read_text()
        texts = list(_READERS[path.suffix](source))
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        return [Finding(1, f"the file cannot be read: {error}")]
    lines = source.splitlines()
    return sorted({found for text in texts for found in _check(text, lines) if not _is_excused(found, text, lines)})


def _check(text: Text, lines: list[str]) -> Iterator[Finding]:
    words = text.words if text.kind is Kind.NAME else _QUOTED.sub(_masked, text.words)
    for refused in REFUSED.finditer(words):
        yield Finding(_line(refused, text, lines), f'{text.kind} has the refused words "{_flat(refused[1])}"')
    if text.kind is Kind.NAME and len(words) > MAX_TEST_NAME and words.startswith("test "):
        yield Finding(text.first, f"test name has {len(words)} characters; at most {MAX_TEST_NAME} are allowed")
    pronoun = _PRONOUN.search(words) if text.kind is Kind.DOCSTRING else None
    if pronoun:
        yield Finding(_line(pronoun, text, lines), f'docstring starts with the pronoun "{pronoun[1]}"')
    if text.kind not in _HAS_SENTENCES:
        return
    if not pronoun and (start := _FIRST_WORD.search(words)):
        yield Finding(_line(start, text, lines), f'{text.kind} starts with "{start[1]}"')
    for start in _LATER_SENTENCE.finditer(words):
        yield Finding(_line(start, text, lines), f'a sentence of this {text.kind} starts with "{start[1]}"')


def _masked(quoted: re.Match[str], mask: str = "x") -> str:
    return re.sub(r"[^\n]", mask, quoted[0])


def _blanked(code: re.Match[str]) -> str:
    return _masked(code, " ")


def _flat(words: str) -> str:
    return " ".join(words.split())


def _line(match: re.Match[str], text: Text, lines: list[str]) -> int:
    """Return the line of a match; strings joined from several lines have no line breaks to count."""
    counted = text.first + match.string[: match.start(1)].count("\n")
    if text.kind is not Kind.MESSAGE or text.first == text.last:
        return counted
    word = match[1].split()[0]
    span = range(text.first, text.last + 1)
    return next((number for number in span if re.search(rf"\b{word}\b", lines[number - 1])), text.first)


def _is_excused(found: Finding, text: Text, lines: list[str]) -> bool:
    before = lines[text.first - 2] if text.first > 1 else ""
    alone = before if before.lstrip().startswith(("#", "<!--")) else ""
    return any(_EXCUSE.search(line) for line in (lines[found.line - 1], lines[text.last - 1], alone))


def _python_texts(source: str) -> Iterator[Text]:
    yield from _comment_blocks(source)
    yield from _node_texts(ast.parse(source))


def _comment_blocks(source: str) -> Iterator[Text]:
    """Yield the comments; comments alone on consecutive lines are one text, because their sentences go on."""
    block: list[str] = []
    end = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, words = token.start[0], _comment_words(token.string)
        is_alone = not token.line[: token.start[1]].strip()
        if block and (not is_alone or line != end + 1):
            yield _comment(block, end)
            block = []
        if is_alone:
            block, end = [*block, words], line
        else:
            yield _comment([words], line)
    if block:
        yield _comment(block, end)


def _comment(block: list[str], end: int) -> Text:
    return Text(Kind.COMMENT, "\n".join(block), end - len(block) + 1, end)


def _comment_words(comment: str) -> str:
    return "#".join(part for part in comment.removeprefix("#").split("#") if not _DIRECTIVE.match(part)).strip()


def _node_texts(node: ast.AST) -> Iterator[Text]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield Text(Kind.NAME, node.name.replace("_", " ").strip(), node.lineno, node.lineno)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        yield _node_text(Kind.DOCSTRING, node.value, node.value.value)
        return
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if (words := _string(node)) is not None:
        if re.search(r"\w\s+\w", words) and not _is_source(words):
            yield _node_text(Kind.MESSAGE, node, words)
        children = (part.value for part in ast.walk(node) if isinstance(part, ast.FormattedValue))
    for child in children:
        yield from _node_texts(child)


def _node_text(kind: Kind, node: ast.AST, words: str) -> Text:
    assert isinstance(node, ast.expr)
    return Text(kind, words, node.lineno, node.end_lineno or node.lineno)


def _string(node: ast.AST) -> str | None:
    """Return a string, with `x` in place of what an f-string fills in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_string(part) or "x" for part in node.values)
    return None


def _is_source(words: str) -> bool:
    """Return whether a string is a program: a tool's source in a test, for example."""
    if not re.search(r"[(=\n:;\[]", words.strip()):
        return False
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
        try:
            ast.parse(textwrap.dedent(words))
        except (SyntaxError, ValueError):
            return False
        return True


def _markdown_texts(source: str) -> Iterator[Text]:
    first, block = 1, list[str]()
    for number, line in enumerate([*_MARKDOWN_CODE.sub(_blanked, source).split("\n"), ""], start=1):
        is_phrase = line.lstrip().startswith(("#", "|"))
        if block and (is_phrase or not line.strip()):
            yield Text(Kind.PARAGRAPH, "\n".join(block), first, number - 1)
            block = []
        if is_phrase:
            yield from (Text(_cell_kind(cell), cell.strip(" #"), number, number) for cell in line.split("|"))
        elif line.strip():
            first = first if block else number
            block.append(line)


def _cell_kind(cell: str) -> Kind:
    """Return the kind of a heading or table cell, which is a sentence only if it ends like one."""
    return Kind.PARAGRAPH if cell.strip().endswith(".") else Kind.PHRASE


def _toml_texts(source: str) -> Iterator[Text]:
    block: list[str] = []
    end = 0
    for token in _TOML_TOKEN.finditer(source):
        if token["comment"] is None:
            continue
        line = source.count("\n", 0, token.start()) + 1
        if block and line != end + 1:
            yield _comment(block, end)
            block = []
        block, end = [*block, _comment_words(token[0])], line
    if block:
        yield _comment(block, end)
    for found in _TOML_DESCRIPTION.finditer(source):
        line = source.count("\n", 0, found.start("text")) + 1
        yield Text(Kind.MESSAGE, found["text"].strip('"'), line, line + found["text"].count("\n"))


_READERS: Final = {".py": _python_texts, ".md": _markdown_texts, ".toml": _toml_texts}


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that have prose, at these paths and in folders below them; hidden folders are left out."""
    for path in paths:
        if path.is_dir():
            found = (file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
            yield from sorted(
                file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)
            )
        else:
            yield path


def main(arguments: list[str]) -> int:
    """Print every finding as `file:line: problem`; return 1 if there is any."""
    if not arguments:
        sys.stderr.write("usage: python -m tests.house.prose PATH...\n")
        return 2
    files = find_files(map(Path, arguments))
    findings = [f"{file}:{found.line}: {found.problem}" for file in files for found in check_file(file)]
    sys.stdout.writelines(f"{line}\n" for line in findings)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
