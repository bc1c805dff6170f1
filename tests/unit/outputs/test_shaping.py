"""Shaping: every output type keeps the same promises; each shows the ends that matter to it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Json, Shaped
from sandbox.outputs.cuts import Ends, is_border
from sandbox.outputs.shaping import FORMS, default_budget, shape, shape_ends, shape_value, value_type

NOTICE = re.compile(r"\[… (\d+) of (\d+) characters omitted \(lines? (\d+)(?:–(\d+))?\) …\]")  # noqa: RUF001
TEXT = st.text(alphabet=st.sampled_from("abc  \n\n\r\u0301\u200d漢😀\x1b"), max_size=120)
TYPE = st.sampled_from([*FORMS, "a type that nobody knows"])
BUDGET = st.integers(0, 130)
LINES = "".join(f"line {number}\n" for number in range(1, 101))


def shown_ends(shaped: Shaped) -> tuple[str, str]:
    """The text around the one notice."""
    found = NOTICE.search(shaped.text)
    assert found
    return shaped.text[: found.start()], shaped.text[found.end() :]


@given(text=TEXT, output_type=TYPE, budget=BUDGET)
def test_what_fits_is_unchanged_and_what_does_not_is_marked(text: str, output_type: str, budget: int) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    assert (shaped.text == text) == (len(text) <= budget)
    assert shaped.truncated == (len(text) > budget)
    assert (shaped.reason is None) == (len(text) <= budget)
    assert shaped.type == output_type
    assert shaped.characters == len(text)


@given(text=TEXT, output_type=TYPE, budget=BUDGET)
def test_no_more_is_shown_than_the_budget_and_a_short_notice(text: str, output_type: str, budget: int) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    assert shaped.shown <= budget
    assert len(shaped.text) <= shaped.shown + 200


@given(text=TEXT, output_type=TYPE, budget=BUDGET)
def test_the_text_without_its_notice_is_a_beginning_and_an_end_of_the_original(
    text: str, output_type: str, budget: int
) -> None:
    shaped = shape(text, output_type=output_type, budget=budget)
    if not shaped.truncated:
        return
    head, tail = shown_ends(shaped)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == shaped.shown < len(text)
    assert is_border(text, at=len(head))
    assert is_border(text, at=len(text) - len(tail))


@given(text=TEXT, output_type=TYPE, budget=BUDGET)
def test_the_notice_counts_what_is_missing_and_names_its_lines(text: str, output_type: str, budget: int) -> None:
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


@given(text=TEXT, output_type=TYPE, budget=BUDGET)
def test_shaping_again_changes_nothing_where_the_shaped_text_fits(text: str, output_type: str, budget: int) -> None:
    once = shape(text, output_type=output_type, budget=budget)
    again = shape(once.text, output_type=output_type, budget=max(budget, len(once.text)))
    assert again.text == once.text
    assert not again.truncated


@pytest.mark.parametrize("output_type", FORMS)
def test_budget_0_shows_the_notice_only(output_type: str) -> None:
    shaped = shape("a\nb\nc", output_type=output_type, budget=0)
    assert shaped.text == "[… 5 of 5 characters omitted (lines 1–3) …]"  # noqa: RUF001
    assert (shaped.shown, shaped.characters, shaped.truncated) == (0, 5, True)
    assert shape("", output_type=output_type, budget=0).text == ""


def test_a_negative_budget_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="not -1"):
        shape("a", output_type="json_data", budget=-1)


def test_an_execution_result_shows_whole_lines_from_both_ends() -> None:
    shaped = shape(LINES, output_type="execution_result", budget=32)
    assert shown_ends(shaped) == ("line 1\nline 2\n", "\nline 99\nline 100\n")


def test_the_notice_stands_on_a_line_of_its_own_between_lines() -> None:
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


def test_control_characters_are_kept_as_they_are() -> None:
    assert shape("\x1b[31mred\x1b[0m\x00", output_type="execution_result", budget=50).text == "\x1b[31mred\x1b[0m\x00"


def test_the_reason_names_the_budget() -> None:
    assert shape("abcdef", output_type="json_data", budget=4).reason == "over the budget of 4 characters"


def test_text_that_was_dropped_is_said_at_the_end_even_when_the_rest_fits() -> None:
    shaped = shape_ends(Ends.whole("abc", dropped=7), output_type="execution_result", budget=3)
    assert shaped.text == "abc[… last 7 of 10 characters dropped: over the output limit …]"
    assert (shaped.characters, shaped.shown, shaped.truncated) == (10, 3, True)
    assert shaped.reason == "over the output limit"


def test_both_notices_of_a_huge_stream_are_shorter_than_200_characters() -> None:
    huge = 10**13
    ends = Ends(head="a\n" * 50, tail="a\n" * 50, characters=huge, newlines=huge // 2, dropped=huge)
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


def test_a_value_over_its_budget_shows_both_ends_of_its_json() -> None:
    shaped = shape_value(list(range(100)), budget=20)
    head, tail = shown_ends(shaped)
    assert (head, tail) == ("[0, 1, 2, ", "7, 98, 99]")
    assert shaped.characters == len(json.dumps(list(range(100))))


def test_default_budgets_are_those_of_the_table_and_small_for_an_unknown_type() -> None:
    assert {name: default_budget(name) for name in FORMS} == {
        "execution_result": 8_000,
        "error_message": 8_000,
        "json_data": 8_000,
        "status_message": 2_000,
    }
    assert default_budget("a type that nobody knows") == 2_000
