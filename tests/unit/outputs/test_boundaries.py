"""Cuts of a text never separate what belongs together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outputs.boundaries import is_border, prefix, prefix_of_lines, suffix, suffix_of_lines

TEXT = st.text(alphabet=st.sampled_from("ab \n\r\u0301\u20dd\u200d\ufe0f漢😀"), max_size=60)


@pytest.mark.parametrize(
    ("text", "at"),
    [("\r\n", 1), ("e\u0301", 1), ("1\ufe0f\u20e3", 2), ("👩\u200d🔬", 1), ("👩\u200d🔬", 2), ("क\u093f", 1)],
)
def test_inseparable_characters_are_not_cut(text: str, at: int) -> None:
    assert not is_border(text, at=at)


@pytest.mark.parametrize(("text", "at"), [("ab", 1), ("\n\r", 1), ("\n\n", 1), ("\u0301e", 1), ("\u0301", 0), ("a", 1)])
def test_everything_else_may_be_cut(text: str, at: int) -> None:
    assert is_border(text, at=at)


def test_a_prefix_goes_back_to_the_last_border() -> None:
    assert prefix("abe\u0301\u0301x", most=4) == "ab"
    assert prefix("ab\r\nx", most=3) == "ab"


def test_a_suffix_goes_on_to_the_next_border() -> None:
    assert suffix("xe\u0301\u0301ab", most=4) == "ab"
    assert suffix("x\r\nab", most=3) == "ab"


def test_an_empty_text_or_no_room_gives_nothing() -> None:
    assert (prefix("abc", most=0), suffix("abc", most=0)) == ("", "")
    assert (prefix("", most=3), suffix("", most=3)) == ("", "")


def test_line_cuts_leave_the_line_break_with_the_shown_part() -> None:
    assert prefix_of_lines("one\ntwo\nthree", most=9) == "one\ntwo\n"
    assert suffix_of_lines("one\ntwo\r\nthree", most=9) == "\r\nthree"


def test_a_line_border_that_costs_more_than_half_is_not_taken() -> None:
    assert prefix_of_lines("a\n" + "x" * 20, most=10) == "a\n" + "x" * 8
    assert suffix_of_lines("x" * 20 + "\na", most=10) == "x" * 8 + "\na"


@given(text=TEXT, most=st.integers(0, 70))
def test_every_cut_is_at_a_border_and_within_the_room(text: str, most: int) -> None:
    for head in (prefix(text, most=most), prefix_of_lines(text, most=most)):
        assert text.startswith(head)
        assert len(head) <= most
        assert is_border(text, at=len(head))
    for tail in (suffix(text, most=most), suffix_of_lines(text, most=most)):
        assert text.endswith(tail)
        assert len(tail) <= most
        assert is_border(text, at=len(text) - len(tail))


@given(text=TEXT, most=st.integers(0, 70))
def test_a_cut_is_the_longest_that_ends_at_a_border(text: str, most: int) -> None:
    heads = [at for at in range(min(most, len(text)) + 1) if is_border(text, at=at)]
    assert len(prefix(text, most=most)) == max(heads)
    tails = [at for at in range(max(len(text) - most, 1), len(text) + 1) if is_border(text, at=at)]
    assert suffix(text, most=most) == text[min(tails, default=len(text)) :]


@given(text=TEXT, most=st.integers(0, 70))
def test_line_cuts_keep_at_least_half_of_what_a_plain_cut_keeps(text: str, most: int) -> None:
    assert 2 * len(prefix_of_lines(text, most=most)) >= len(prefix(text, most=most))
    assert 2 * len(suffix_of_lines(text, most=most)) >= len(suffix(text, most=most)) - 1
