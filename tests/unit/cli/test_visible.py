"""Foreign text can be looked at: it drives nothing, hides nothing, and otherwise stays what it is."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cli.visible import VisiblePieces, one_line, visible

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[2J", r"\u001b[2J"),
        ("\x9b31m", r"\u009b31m"),
        ("a\x00b\x07c\x7fd", r"a\u0000b\u0007c\u007fd"),
        ("dos\r\nline\r", "dos\nline\\u000d"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("\u200b\ufeff\u2028", r"\u200b\ufeff\u2028"),
        ("\U000e0041", r"\udb40\udc41"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_acts_lies_or_hides_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["é", "日本語", "שלום", "نمی‌دانم", "👩‍💻", "ไทย", "क्षि", "\u0301", "\xa0"])
def test_every_script_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(ANY_TEXT)
def test_nothing_that_is_shown_controls_anything(text: str) -> None:
    assert all(
        letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp") for letter in visible(text)
    )


@given(ANY_TEXT)
def test_json_stays_the_same_json(text: str) -> None:
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


@given(st.lists(ANY_TEXT))
def test_text_in_pieces_is_shown_like_the_whole(pieces: list[str]) -> None:
    gate = VisiblePieces()
    assert "".join([*map(gate.feed, pieces), gate.end()]) == visible("".join(pieces))


@given(ANY_TEXT, st.integers(1, 50))
def test_one_line_is_one_line_of_bounded_length(text: str, most: int) -> None:
    line = one_line(text, most=most)
    assert len(line) <= most
    assert "\n" not in line
