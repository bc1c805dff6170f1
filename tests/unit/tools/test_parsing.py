"""Parsing ends soon for every text, with a tool or a `SourceError`."""

from __future__ import annotations

import ast
import contextlib
import gc
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SourceError
from sandbox.tools import ToolDefinition, read_tool
from sandbox.tools.check import check_source
from sandbox.tools.syntax.parsing import MAX_TOKENS, count_tokens, parse_module
from sandbox.tools.syntax.scope import type_parameters
from tests.processor_time import within

TOOL = "def greet(): pass\n"
MANY = 100_000
ROUNDS = 90
MOST = MAX_TOKENS - 50

BOMBS = {
    "nested parentheses": "(" * MANY + ")" * MANY,
    "open parentheses": "(" * MANY,
    "nested lists": "[" * 150 + "]" * 150,
    "unary minus": "-" * MOST + "1",
    "unary not": "not " * MOST + "x",
    "attributes": "a" + ".b" * (MOST // 2),
    "attributes, too many to parse": "a" + ".b" * MANY,
    "calls": "f" + "()" * (MOST // 2),
    "subscripts": "a" + "[0]" * (MOST // 3),
    "additions": "1" + "+1" * (MOST // 2),
    "powers": "1" + "**1" * (MOST // 3),
    "lambdas": "lambda:" * (MOST // 2) + "0",
    "conditionals": "1 if 1 else " * (MOST // 4) + "1",
    "elif": "if a: 0\n" + "elif a: 0\n" * (MOST // 4),
    "nested blocks": "\n".join(" " * depth + "if a:" for depth in range(90)) + "\n" + " " * 90 + "0",
    "too many blocks": "\n".join(" " * depth + "if a:" for depth in range(500)),
    "a million statements": "x=1\n" * 1_000_000,
    "many statements": "x;" * (MOST // 2),
    "many statements wrong at the end": "x;" * (MOST // 2) + "a b",
    "many targets": "x=" * (MOST // 2) + "1",
    "many decorators": "@a\n" * (MOST // 2),
    "many constants": f"x = [{'1,' * (MOST // 2)}]",
    "one f-string of many expressions": f"x = f'{'{a}' * (MOST // 3)}'",
    "one long f-string": f"x = f'''{'{a}' + 'text ' * 90_000}{'{b}' * 3000}'''",
    "an f-string behind a false one": f"# f'''\nx = f'\"\"\" {'{a}' * (MOST // 3)}'",
    "many f-strings": "f'{a}';" * (MOST // 7),
    "nested f-strings": "f'{f\"{a}\"}'" * 5000,
    "many beginnings of f-strings": "x = '" + 'f"' * (MOST // 2) + "'",
    "many strings": "x = (" + "'' " * 400_000 + ")",
    "many byte strings": "x = (" + "b'' " * (MOST // 2) + ")",
    "combining marks": "a" + "\u0301\u0327" * MANY + " = 1",
    "marks that decompose": "a" + "\u0f73" * MANY + " = 1",
    "long name": "a" * 1_000_000 + " = 1",
    "long name of ligatures": "ﬁ" * 1_000_000 + " = 1",
    "a long decimal number": "x = " + "9" * 1_000_000,
    "a long hexadecimal number": "x = 0x" + "f" * 1_000_000,
    "a long string": "x = '" + "y" * 5_000_000 + "'",
    "invalid escapes": "'\\d';" * (MOST // 5),
    "named characters": "x = '" + "\\N{DIGIT ONE}" * 30_000 + "'",
    "import names": "from a import " + ", ".join(["b"] * (MOST // 3)),
    "script blocks": "# /// script\n#\n" * 100_000,
    "script blocks without an end": "# /// a\n" * 300_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_hostile_text_is_answered_within_two_seconds(bomb: str) -> None:
    for source in (TOOL + bomb, bomb):
        with within(2):
            assert _is_answered(source)


@pytest.mark.slow
def test_a_bomb_is_refused_on_a_thread_too() -> None:
    answers: list[bool] = []
    bombs = ["attributes", "unary minus", "calls", "additions", "elif"]
    thread = threading.Thread(target=lambda: answers.extend(_is_answered(TOOL + BOMBS[name]) for name in bombs))
    thread.start()
    thread.join()
    assert answers == [True] * len(bombs)


@pytest.mark.parametrize("name", ["unary minus", "attributes", "lambdas", "elif"])
def test_nesting_beyond_the_parser_is_refused_as_nesting(name: str) -> None:
    with pytest.raises(SourceError, match="nested too deeply"):
        read_tool(TOOL + BOMBS[name])


@pytest.mark.slow
def test_a_good_source_is_read_while_threads_parse_and_gc_runs(
    restless_collector: None,
) -> None:
    is_over = threading.Event()
    others = [threading.Thread(target=_parse_until, args=(is_over,)) for _ in range(3)]
    answers: list[bool] = []
    readers = [threading.Thread(target=lambda each=each: answers.extend(_read_many(each))) for each in range(4)]
    for thread in [*others, *readers]:
        thread.start()
    for thread in readers:
        thread.join()
    is_over.set()
    for thread in others:
        thread.join()
    assert answers == [True] * (len(readers) * ROUNDS)


def _parse_until(is_over: threading.Event) -> None:
    """Parse deep sources, as a program around the engine may do."""
    while not is_over.is_set():
        with contextlib.suppress(SystemError, RecursionError):
            ast.parse(f"x = {'-' * 800}1")


def _read_many(reader: int) -> list[bool]:
    """Read deep and shallow sources, none of them for the second time; return which were read correctly."""
    depths = [500, 1, 90]
    sources = [f"# {reader} {each}\ndef tool(a: int):\n    return {'-' * depths[each % 3]}a" for each in range(ROUNDS)]
    return [read_tool(source).parameters[0].name == "a" for source in sources]


@pytest.fixture
def restless_collector() -> Iterator[None]:
    """Run the collector often, and let other threads run in its middle."""

    def give_way(*_: object) -> None:
        sum(range(50))

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.callbacks.remove(give_way)


def test_too_many_statements_are_refused_before_parsing() -> None:
    with pytest.raises(SourceError, match=str(MAX_TOKENS)):
        read_tool(BOMBS["a million statements"])


def test_a_heavy_f_string_is_refused_with_its_line() -> None:
    with pytest.raises(SourceError, match="f-string") as refusal:
        read_tool(TOOL + BOMBS["one f-string of many expressions"])
    assert refusal.value.line == 2


def test_combining_marks_are_refused_with_their_line() -> None:
    with pytest.raises(SourceError, match="combining marks") as refusal:
        read_tool(TOOL + BOMBS["combining marks"])
    assert refusal.value.line == 2


def test_long_prose_in_another_script_is_not_a_streak_of_marks() -> None:
    prose = "नमस्ते दुनिया।" * 200 + "你好世界。" * 2000
    assert read_tool(f'def greet():\n    """{prose}"""\n').docstring == prose


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("a b", 2), ("a+b", 3), ("x = [1, 2]\n", 7), ("é_1 = 'a b'", 6)]
)
def test_words_and_signs_are_counted(text: str, tokens: int) -> None:
    assert count_tokens(text.encode()) == tokens


def test_a_syntax_error_points_at_its_place() -> None:
    with pytest.raises(SourceError) as refusal:
        read_tool("import os\n\ndef greet(name:\n    return name\n")
    assert refusal.value.line == 3
    assert refusal.value.column == 10
    assert "    def greet(name:\n             ^" in refusal.value.message


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def greet()\n    pass", 1),
        ("def greet():\npass", 2),
        ("def greet():\n\tif 1:\n        pass", 3),
        ("def greet():\n    print 'x'", 2),
        ("def greet(): return 'open\n", 1),
        ("def greet(a=1, b): pass", 1),
        ("\ndef greet(a, a): pass", 2),
        ("x = ''\nx = \u200b1\n", 2),
        ("def greet(): pass\n    x = 1", 2),
        ("f'{a b}'", 1),
        ("def greet(): pass\n'''", 2),
    ],
)
def test_bad_syntax_is_refused_with_its_line(source: str, line: int) -> None:
    with pytest.raises(SourceError, match="syntax error") as refusal:
        read_tool(source)
    assert refusal.value.line == line


def test_a_syntax_error_quotes_little_and_no_control_characters() -> None:
    with pytest.raises(SourceError) as refusal:
        read_tool("x = '" + "y" * 100_000 + "\x1b[31m' z z")
    assert len(refusal.value.message) < 500
    assert "\x1b" not in refusal.value.message


@pytest.mark.parametrize("action", ["error", "always"])
def test_warnings_of_the_parser_are_not_shown(action: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        assert read_tool(f"def greet():\n    return '\\d', 1is 1, () is (), {action!r}\n").name == "greet"
    assert caught == []
    assert capfd.readouterr() == ("", "")


PIECES = [
    "def f(",
    "a: int",
    "):",
    "\n",
    "    ",
    "return",
    "'",
    '"""',
    "f'{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "# /// script\n",
]
PIECES += ["# ///\n", "# coding: ", "latin-1", "\t", "\\", "lambda", "*", "é", "\ufeff", "\r", "if x:", "class A:", ","]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join)))
def test_any_text_is_a_tool_or_a_source_error(text: str) -> None:
    assert _is_answered(text)
    assert _is_answered(TOOL + text)


@given(
    st.one_of(st.binary(), st.lists(st.sampled_from(PIECES), max_size=40).map(lambda parts: "".join(parts).encode()))
)
def test_any_bytes_are_a_tool_or_a_source_error(data: bytes) -> None:
    assert _is_answered(data)
    assert _is_answered(TOOL.encode() + data)


@given(filename=st.text(), entry=st.one_of(st.none(), st.text()))
def test_any_filename_and_entry_are_a_tool_or_a_source_error(filename: str, entry: str | None) -> None:
    assert _is_answered(TOOL, filename=filename, entry=entry)


def _is_answered(source: str | bytes, *, filename: str = "tool.py", entry: str | None = None) -> bool:
    try:
        return isinstance(read_tool(source, filename=filename, entry=entry), ToolDefinition)
    except SourceError as refusal:
        return len(str(refusal)) < 3000


NEWER = """
class Page[T: (int, str), *Ts](Base): x: T
class A:
    async def get[
        T = "a[b]",  # of it
    ](self): ...
type  Pair [A, B: list[int]] = tuple[A, B]
type Ids = list[int]
def f[**P](a: int): ...
text = "def f[T](a)"
"""


def test_a_source_for_a_newer_python_has_type_parameters_and_places() -> None:
    module = parse_module(NEWER)
    found = [(each, type_parameters(each)) for each in ast.walk(module)]
    named = {getattr(each, "name", "Pair"): [name for name, _ in names] for each, names in found if names}
    assert {str(getattr(name, "id", name)): names for name, names in named.items()} == {
        "Page": ["T", "Ts"],
        "get": ["T"],
        "Pair": ["A", "B"],
        "f": ["P"],
    }
    assert [each.lineno for each in module.body] == [2, 3, 7, 8, 9, 10]
    assert ast.unparse(module.body[-1]) == "text = 'def f[T](a)'"
    (bound,) = [bound for _, names in found for name, bound in names if name == "B"]
    assert ast.unparse(bound or module) == "list[int]"


OWN: Final = ".".join(map(str, sys.version_info[:2]))
NEXT: Final = f"{sys.version_info[0]}.{sys.version_info[1] + 1}"


def _wrong_for(versions: str) -> str:
    return f'# /// script\n# requires-python = "{versions}"\n# ///\ndef tool():\n    return 1 ? 2\n'


@pytest.mark.parametrize(
    "versions", [f">={NEXT}", f"== {NEXT}.*", f"~={NEXT}.1", f">={NEXT},<4", f"<5, >{NEXT}", ">=4"]
)
def test_unsupported_syntax_of_a_newer_python_gets_a_remedy(versions: str) -> None:
    with pytest.raises(SourceError) as refusal:
        read_tool(_wrong_for(versions))
    assert f"Python {OWN}" in refusal.value.message.partition("\n")[0]
    assert "syntax error" in refusal.value.message
    assert "as new as the tool's" in str(refusal.value.remedy)
    assert (refusal.value.line, refusal.value.column) == (5, 14)
    (problem,) = check_source(_wrong_for(versions)).problems
    assert (problem.message, problem.line) == (refusal.value.message, 5)


@pytest.mark.parametrize("versions", [f">={OWN}", f"<{NEXT}", f"!={NEXT}", "<3", ">=3.8", "", "nonsense", "9" * 9000])
def test_a_syntax_error_for_our_python_is_reported_as_such(versions: str) -> None:
    with pytest.raises(SourceError, match=r"^syntax error") as refusal:
        read_tool(_wrong_for(versions))
    assert refusal.value.remedy is None


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("class A[T]: x: T\ndef f(a b): ...\n", 2, 9),
        ("type X[T] = list[T]\n\ndef f[T](a: T: ...\n", 3, 14),
        ("def f[T(a): ...\n", 1, 6),
        ("x = 1\nclass A[T:\n    int]: ?\n", 3, 11),
    ],
)
def test_a_fault_in_a_source_for_a_newer_python_has_its_place(source: str, line: int, column: int) -> None:
    with pytest.raises(SourceError) as refusal:
        parse_module(source)
    assert (refusal.value.line, refusal.value.column) == (line, column)
