"""Every output type keeps the same promises, and shows the ends that matter to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Artifact, Json, Shaped
from sandbox.outputs.boundaries import is_border
from sandbox.outputs.notices import MAX_NOTICE_CHARACTERS, strip_notices
from sandbox.outputs.shapes import SHAPES, shape_for
from sandbox.outputs.shaping import shape, shape_ends, shape_reference, shape_value, value_type
from sandbox.outputs.text_ends import TextEnds

NOTICE = re.compile(r"\[… (\d+) of (\d+) characters omitted \((?:line|row)s? (\d+)(?:–(\d+))?[^)\]]*\)[^\]]*…\]")  # noqa: RUF001
PLAIN = "abc  \n\n\u0301\u200d漢😀"
TEXT = st.text(alphabet=st.sampled_from(PLAIN), max_size=120)
CONTROLS = ["\r", "\b", "\x1b[31m", "\x1b[K", "\x1b"]
PIECES = [*PLAIN, *CONTROLS, "an error\n", '  File "/work/t.py", line 1\n', "    code()\n"]
PRINTED = st.lists(st.sampled_from([*PIECES, "Fatal: no\n", '{"a": "', "[1, 2, "]), max_size=60).map("".join)
TEXTS = [name for name, form in SHAPES.items() if form.budget and name not in ("json_data", "table")]
TYPE = st.sampled_from([*SHAPES, "an unknown type"])
TEXT_TYPE = st.sampled_from([*TEXTS, "an unknown type"])
BUDGET = st.integers(0, 130)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
VALUE: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(PLAIN + '"\\', max_size=90),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(PLAIN, max_size=9), inner, max_size=12),
    max_leaves=30,
)
LINES = "".join(f"line {number}\n" for number in range(1, 101))


def shown_ends(shaped: Shaped) -> tuple[str, str]:
    """Return the text around the single notice."""
    found = NOTICE.search(shaped.text)
    assert found
    return shaped.text[: found.start()], shaped.text[found.end() :]


@given(text=TEXT, output_type=TYPE, budget=BUDGET)
def test_text_that_fits_is_unchanged_and_other_text_is_marked(text: str, output_type: str, budget: int) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    assert (shaped.text == text) == (len(text) <= budget)
    assert shaped.truncated == (len(text) > budget)
    assert (shaped.reason is None) == (len(text) <= budget)
    assert shaped.type == output_type
    assert shaped.characters == len(text)


@given(text=PRINTED, output_type=TYPE, budget=BUDGET)
def test_the_shown_text_is_within_the_budget_and_a_short_notice(text: str, output_type: str, budget: int) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    assert shaped.shown <= budget
    assert len(strip_notices(shaped.text)) <= budget
    assert len(shaped.text) <= budget + MAX_NOTICE_CHARACTERS + 2  # the quotes of a notice in JSON


@given(text=PRINTED, output_type=TYPE, budget=BUDGET)
def test_shaping_again_changes_nothing(text: str, output_type: str, budget: int) -> None:
    once = shape(text, output_type=output_type, budget=budget)
    assert shape(once.text, output_type=output_type, budget=budget).text == once.text


@given(text=TEXT, output_type=TEXT_TYPE, budget=BUDGET)
def test_without_its_notice_the_text_is_two_ends_of_the_original(text: str, output_type: str, budget: int) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    if not shaped.truncated:
        return
    head, tail = shown_ends(shaped)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == shaped.shown < len(text)
    assert is_border(text, at=len(head))
    assert is_border(text, at=len(text) - len(tail))


@given(text=TEXT, output_type=TEXT_TYPE, budget=BUDGET)
def test_the_notice_counts_the_missing_part_and_names_its_lines(text: str, output_type: str, budget: int) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    if not shaped.truncated:
        return
    head, tail = shown_ends(shaped)
    found = NOTICE.search(shaped.text)
    assert found
    omitted, of, first, last = (int(group or found[3]) for group in found.groups())
    assert (omitted, of) == (len(text) - shaped.shown, len(text))
    assert first == 1 + head.count("\n")
    assert last == 1 + text[: len(text) - len(tail) - 1].count("\n")


@given(number=st.integers(0, 400), every=st.integers(1, 90), budget=st.integers(0, 3000))
def test_shown_lines_keep_their_order_with_highlights_between_the_ends(number: int, every: int, budget: int) -> None:
    lines = [f"{each}: {'an error' if each % every == 0 else 'fine'}" for each in range(1, number + 1)]
    shaped = shape("\n".join(lines), output_type="execution_result", budget=budget)
    seen = [int(each) for each in re.findall(r"^(?:\[line \d+\] )?(\d+): \w+", strip_notices(shaped.text), re.M)]
    assert seen == sorted(set(seen))
    for line, said in re.findall(r"^\[line (\d+)\] (.*)$", shaped.text, re.M):
        assert said == lines[int(line) - 1]
        assert int(line) % every == 0


def numbers_in(text: str) -> list[int]:
    """Return the complete numbers that `numbered` wrote, without cut ones."""
    return [int(each) for each in re.findall(r"<(\d{5})>", text)]


def numbered(value: Any, numbers: Iterator[int]) -> Any:
    """Return the same value with a number in each key and leaf, in the order of writing."""
    if isinstance(value, list):
        return [numbered(each, numbers) for each in value]
    if isinstance(value, dict):
        return {f"<{next(numbers):05}>{key}": numbered(each, numbers) for key, each in value.items()}
    return f"<{next(numbers):05}>{value}"


@given(output_type=TYPE, number=st.integers(0, 300), every=st.integers(1, 90), budget=st.integers(0, 3000))
def test_kept_lines_keep_their_order(output_type: str, number: int, every: int, budget: int) -> None:
    frame = '  File "/work/t.py", line 1\n    '
    kinds = ("an error", "fine", "fine", f"a call\n{frame}call()")
    lines = (f"<{each:05}> {kinds[each % every % len(kinds)]}" for each in range(number))
    seen = numbers_in(shape("\n".join(lines), output_type=output_type, budget=budget).text)
    assert seen == sorted(set(seen))


@given(value=VALUE, budget=st.integers(0, 2000))
def test_kept_parts_of_a_value_keep_their_order(value: Json, budget: int) -> None:
    whole = numbered(value, count())
    seen = numbers_in(shape_value(whole, output_type="json_data", budget=budget).text)
    assert seen == sorted(set(seen))


@given(rows=st.integers(0, 90), columns=st.integers(1, 40), budget=st.integers(0, 2000))
def test_kept_cells_of_a_table_keep_their_order(rows: int, columns: int, budget: int) -> None:
    numbers = count()
    names: list[Json] = [{"name": f"<{next(numbers):05}>", "dtype": "int64"} for _ in range(columns)]
    cells: list[Json] = [[f"<{next(numbers):05}>" for _ in range(columns)] for _ in range(rows)]
    shaped = shape_value({"$type": "table", "columns": names, "rows": cells, "row_count": rows}, budget=budget)
    assert numbers_in(shaped.text) == sorted(set(numbers_in(shaped.text)))


@given(value=VALUE, budget=st.integers(0, 2000))
def test_shaped_json_is_within_its_budget_and_stable(value: Json, budget: int) -> None:
    shaped = shape_value(value, output_type="json_data", budget=budget)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    assert (shaped.text == text) == (len(text) <= budget)
    assert len(strip_notices(shaped.text)) <= budget
    if not isinstance(value, str):
        json.loads(shaped.text)
        assert shape(shaped.text, output_type="json_data", budget=budget).text == shaped.text


@pytest.mark.parametrize("output_type", TEXTS)
def test_budget_0_shows_the_notice_only(output_type: str) -> None:
    shaped = shape("a\nb\nc", output_type=output_type, budget=0)
    assert (shaped.text, shaped.shown) == ("[… 5 of 5 characters omitted (lines 1–3) …]", 0)  # noqa: RUF001


def test_budget_0_shows_the_notice_of_json_as_json() -> None:
    shaped = shape_value({"a": 1}, budget=0)
    assert json.loads(shaped.text) == "[… 8 of 8 characters omitted …]"


def test_a_negative_budget_is_an_error_of_the_engine() -> None:
    with pytest.raises(ValueError, match="not -1"):
        shape("a", output_type="json_data", budget=-1)


def test_an_execution_result_shows_whole_lines_from_both_ends() -> None:
    shaped = shape(LINES, output_type="execution_result", budget=32)
    assert shown_ends(shaped) == ("line 1\nline 2\n", "\nline 99\nline 100\n")


def test_the_notice_has_its_own_line_between_lines() -> None:
    shaped = shape("one\ntwo\nthree\nfour", output_type="execution_result", budget=10)
    assert shaped.text == "one\n[… 9 of 18 characters omitted (lines 2–3) …]\nfour"  # noqa: RUF001


def test_one_long_line_is_shown_from_both_ends() -> None:
    shaped = shape("x" * 50 + "y" * 50, output_type="execution_result", budget=10)
    assert shaped.text == "xxxxx[… 90 of 100 characters omitted (line 1) …]yyyyy"


def test_an_error_message_shows_three_times_more_of_its_end() -> None:
    head, tail = shown_ends(shape("x" * 500 + "y" * 500, output_type="error_message", budget=100))
    assert (head, tail) == ("x" * 25, "y" * 75)


def test_the_last_line_of_a_traceback_survives() -> None:
    traceback = "Traceback (most recent call last):\n" + '  File "x.py", line 1\n' * 500 + "ValueError: no such city\n"
    shaped = shape(traceback, output_type="error_message", budget=200)
    assert shaped.text.startswith("Traceback (most recent call last):\n")
    assert shaped.text.endswith("ValueError: no such city\n")


def test_a_status_message_shows_its_beginning() -> None:
    assert shape("abcdef", output_type="status_message", budget=4).text == (
        "abcd[… 2 of 6 characters omitted (line 1) …]"
    )


def test_printed_text_is_what_a_terminal_shows_with_a_reason() -> None:
    shaped = shape("\x1b[31mred\x1b[0m\x00\r\n10%\r20%\n", output_type="execution_result", budget=50)
    assert (shaped.text, shaped.characters) == ("red\x00\r\n20%\n", 10)
    assert (shaped.truncated, shaped.reason) == (False, "as a terminal shows it")


@pytest.mark.parametrize("output_type", ["file_content", "knowledge_content", "json_data", "table"])
def test_text_that_is_not_printed_keeps_its_control_characters(output_type: str) -> None:
    assert shape("\x1b[31mred\r", output_type=output_type, budget=50).text == "\x1b[31mred\r"


def test_the_reason_names_the_budget() -> None:
    assert shape("abcdef", output_type="json_data", budget=4).reason == "over the budget of 4 characters"


def test_dropped_text_is_reported_at_the_end_even_when_the_rest_fits() -> None:
    shaped = shape_ends(TextEnds.whole("abc", dropped=7), output_type="execution_result", budget=3)
    assert shaped.text == "abc[… last 7 characters dropped: over the output limit …]"
    assert (shaped.characters, shaped.shown, shaped.truncated) == (10, 3, True)
    assert shaped.reason == "over the output limit"


def test_both_notices_of_a_huge_stream_are_shorter_than_200_characters() -> None:
    huge = 10**13
    ends = TextEnds(head="a\n" * 50, tail="a\n" * 50, characters=huge, newlines=huge // 2, dropped=huge)
    shaped = shape_ends(ends, output_type="execution_result", budget=10)
    assert len(shaped.text) - shaped.shown <= 200
    assert shaped.reason == "over the budget of 10 characters; over the output limit"


@pytest.mark.parametrize(
    ("value", "output_type", "text"),
    [
        ({"é": [1, None]}, "json_data", '{"é": [1, null]}'),
        ([], "json_data", "[]"),
        ('say "hi"', "execution_result", 'say "hi"'),
        (None, "json_data", "null"),
        (True, "json_data", "true"),
        (2.5, "json_data", "2.5"),
        (["\ud800", float("nan")], "json_data", '["\ufffd", null]'),
        ("\ud800", "execution_result", "\ufffd"),
    ],
)
def test_a_value_is_shaped_by_its_python_type(value: Json, output_type: str, text: str) -> None:
    shaped = shape_value(value, budget=100)
    assert (shaped.type, shaped.text, shaped.truncated) == (output_type, text, False)
    assert value_type(value) == output_type


def test_default_budgets_are_those_of_the_table() -> None:
    assert {name: (form.budget, form.history) for name, form in SHAPES.items()} == {
        "knowledge_content": (60_000, 12_000),
        "file_content": (60_000, 12_000),
        "file_view_result": (60_000, 12_000),
        "execution_result": (8_000, 12_000),
        "error_message": (8_000, 12_000),
        "status_message": (2_000, 4_000),
        "json_data": (8_000, 12_000),
        "table": (8_000, 12_000),
        "image": (0, 0),
        "binary": (0, 0),
        "file": (0, 0),
    }
    unknown = shape_for("an unknown type")
    assert (unknown.budget, unknown.history) == (2_000, 4_000)


def test_error_lines_in_the_gap_are_kept_with_their_numbers() -> None:
    lines = [f"step {number}" for number in range(1, 1001)]
    lines[399], lines[699] = "ERROR: no such city", "OSError: the disk is full"
    shaped = shape("\n".join(lines), output_type="execution_result", budget=400)
    _, behind = shown_ends(shaped)
    assert "; 2 lines of it follow)" in shaped.text
    assert behind.startswith("\n[line 400] ERROR: no such city\n[line 700] OSError: the disk is full\nstep ")


def test_a_long_error_line_in_the_gap_is_kept_in_part_and_marked() -> None:
    text = "a\n" * 500 + "error: " + "x" * 5000 + "\n" + "z\n" * 500
    shaped = shape(text, output_type="execution_result", budget=2000)
    assert re.search(r"\n\[line 501\] error: x{293}…\n", shaped.text)


def test_the_tools_own_frames_and_the_message_survive_a_long_message() -> None:
    own = '  File "/work/tool.py", line 7, in run\n    ask(city)\n'
    library = '  File "/env/lib/python3.11/site-packages/web/ask.py", line 90, in ask\n    raise NoSuchCity(text)\n'
    text = "started\n" * 999 + "Traceback (most recent call last):\n" + own + 40 * library + "web.NoSuchCity: <html>\n"
    shaped = shape(text + "<p>\n" * 9999, output_type="error_message", budget=4000)
    for kept in ('File "/work/tool.py", line 7, in run\n    ask(city)', "web.NoSuchCity: <html>"):
        assert kept in shaped.text
    assert shaped.text.startswith("started\n")
    assert shaped.text.endswith("<p>\n")


def test_knowledge_without_lines_is_cut_between_sentences() -> None:
    text = "One is short. " * 40
    head, tail = shown_ends(shape(text, output_type="knowledge_content", budget=100))
    assert (head, tail) == ("One is short. " * 3, "One is short. " * 4)


def test_the_notice_names_the_artifact_with_the_whole() -> None:
    shaped = shape("abcdef", output_type="status_message", budget=4, artifact="0f3a")
    assert shaped.text == "abcd[… 2 of 6 characters omitted (line 1); whole output: artifact 0f3a …]"
    assert shaped.artifact == "0f3a"


def test_broken_text_is_reported_with_a_reference() -> None:
    plot = Artifact(id="ab" * 16, name="a\nplot.png", mime="image/png", bytes=9, digest="cd" * 32, width=4, height=3)
    shaped = shape_reference(plot, output_type="image")
    assert shaped.text == (
        f"[image a\ufffdplot.png: image/png, 4 × 3, 9 bytes, sha256 cdcdcdcdcdcd…, artifact {'ab' * 16}]"  # noqa: RUF001
    )
    assert shaped.artifact == plot.id
    long = plot.model_copy(update={"name": "n" * 999, "mime": "m" * 999, "bytes": 10**15})
    assert len(shape_reference(long, output_type="image").text) <= MAX_NOTICE_CHARACTERS
