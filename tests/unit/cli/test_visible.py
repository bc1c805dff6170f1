"""Foreign text on a terminal controls nothing and hides nothing, and otherwise stays unchanged."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cli.terminal import SeenPieces, one_line, visible
from sandbox.outputs.terminal import as_seen

ANY_TEXT = st.text(st.characters(exclude_categories=()))
MOVES = ["\r", "\b", "\x1b[31m", "\x1b[K", "\x1b[2C", "\x1b[D"]
WRITTEN_OVER = st.sampled_from(["a", "bc", "漢", "\n", "\r\n", "\u202e", *MOVES])


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
def test_characters_that_act_lie_or_hide_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["é", "日本語", "שלום", "نمی‌دانم", "👩‍💻", "ไทย", "क्षि", "\u0301", "\xa0"])
def test_every_script_is_unchanged(text: str) -> None:
    assert visible(text) == text


@given(ANY_TEXT)
def test_shown_text_has_no_control_characters(text: str) -> None:
    assert all(
        letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp") for letter in visible(text)
    )


@given(ANY_TEXT)
def test_escaped_json_is_the_same_json(text: str) -> None:
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


def written(pieces: list[str], *, is_live: bool) -> str:
    """Return all that is written of a text that comes in these pieces."""
    seen = SeenPieces(is_live=is_live)
    return "".join([*map(seen.feed, pieces), seen.end()])


@given(st.lists(ANY_TEXT | WRITTEN_OVER))
def test_text_in_pieces_is_shown_like_the_whole(pieces: list[str]) -> None:
    assert as_seen(written(pieces, is_live=True)) == visible(as_seen("".join(pieces)))


@given(st.lists(WRITTEN_OVER))
def test_a_file_gets_the_last_state_of_every_line(pieces: list[str]) -> None:
    lines = iter(written(pieces, is_live=False).split("\n"))
    assert all(line in lines for line in visible(as_seen("".join(pieces))).split("\n") if line)


@given(st.lists(st.sampled_from(["a", "bc", "\n", "\r\n", "\x1b[31m", "\u200b"])))
def test_text_without_overwriting_is_the_same_everywhere(pieces: list[str]) -> None:
    assert written(pieces, is_live=False) == written(pieces, is_live=True) == visible(as_seen("".join(pieces)))


def test_a_progress_bar_is_shown_moving_or_as_its_two_ends() -> None:
    bar = ["\r 0%", "\r50%", "\r99%\n", "do", "ne"]
    assert written(bar, is_live=True) == " 0%\r\x1b[K50%\r\x1b[K99%\ndone"
    assert written(bar, is_live=False) == " 0%\n99%\ndone"


def test_printed_text_is_shown_before_its_line_ends() -> None:
    assert [SeenPieces(is_live=each).feed("Name: ") for each in (True, False)] == ["Name: ", "Name: "]


@given(ANY_TEXT, st.integers(1, 50))
def test_one_line_is_one_line_of_bounded_length(text: str, most: int) -> None:
    line = one_line(text, most=most)
    assert len(line) <= most
    assert "\n" not in line
