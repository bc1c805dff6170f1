"""A terminal shows the last state of each line, whatever the pieces of the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outputs import terminal as terminal_module
from sandbox.outputs.terminal import MAX_LINE_CHARACTERS, Terminal, as_seen
from tests.unit.outputs.slow_terminal import read_slowly

COLOURS = ["\x1b[m", "\x1b[31m", "\x1b[1;32m"]
CONTROLS = ["\x1b", "\x1b[", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[3C", "\x1b[2D", "\x1b[G", "\x1b]0;a\x07", *COLOURS]
PLAIN = ["a", "\x00", "bc", "漢", "\u0301", "\u200d", "\n", "\r\n", " ", "[", "1", "K", "m", "\\", "]"]
TEXT = st.lists(st.sampled_from([*PLAIN, *CONTROLS, "\r", "\b", "\b\b"]), max_size=40).map("".join)
REWRITTEN = st.lists(st.sampled_from(["\r", "\r", "a", "bc", "def", " ", "   ", "\t", "\n", "\x1b[1m"]), max_size=40)
COLOURED = st.lists(
    st.sampled_from(
        [*COLOURS, *COLOURS, "\x1b[", "\x1b[3", "\x1b]", "\x1b[K", "\x07", "a", "1m", "漢", "\ud800", "\x00", "\n"]
    ),
    max_size=40,
)
STEPS = st.lists(st.integers(1, 7), min_size=1, max_size=8)


def in_pieces(text: str, *, steps: list[int]) -> str:
    terminal, shown, at, number = Terminal(), [], 0, 0
    while at < len(text):
        step = steps[number % len(steps)]
        shown.append(terminal.feed(text[at : at + step]))
        at, number = at + step, number + 1
    return "".join(shown) + terminal.rest()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        ("long line\rshort\n", "shortline\n"),
        ("long line\r\x1b[Kshort\n", "short\n"),
        ("long line\x1b[2K\rshort\n", "short\n"),
        ("loading\r       \rdone\n", "done\n"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mblue\x1b[m\n", "red and blue\n"),
        ("abc\b\bX\n", "aXc\n"),
        ("|\b/\b-\b done\n", " done\n"),
        ("\x1b]0;title\x07text \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", "text link\n"),
        ("abc\x1b[5Gx\x1b[1Gy\n", "ybc x\n"),
        ("ab\x1b[3Cc\x1b[2Dd\n", "ab  dc\n"),
        ("abc\x1b[D\x1b[1Kd\n", "  d\n"),
        ("one\ntwo\x1b[1A\rthree\n", "one\nthree\n"),
        ("\x1b(B\x1b[?25l\x1b7text\x1b8\x1b[?25h", "text"),
        ("lost \x1b", "lost "),
        ("\x1b[31", ""),
        ("a\x1b\x1b[31mb", "ab"),
        ("windows\r\nlines\r\n", "windows\r\nlines\r\n"),
        ("half\r\r\nnext", "half\r\nnext"),
        ("ends with a return\r", "ends with a return"),
        ("漢字漢字\rab", "ab漢字"),
    ],
)
def test_the_last_state_of_a_line_is_visible(text: str, seen: str) -> None:
    assert as_seen(text) == seen


@given(text=TEXT | REWRITTEN.map("".join) | COLOURED.map("".join), steps=STEPS)
def test_the_result_equals_reading_single_characters(text: str, steps: list[int]) -> None:
    assert as_seen(text) == in_pieces(text, steps=steps) == read_slowly(text)


@given(text=TEXT, steps=STEPS)
def test_the_pieces_of_a_text_do_not_matter(text: str, steps: list[int]) -> None:
    assert in_pieces(text, steps=steps) == as_seen(text)


@given(text=TEXT | REWRITTEN.map("".join), steps=STEPS, longest=st.integers(1, 9), moves=st.integers(0, 9))
def test_pieces_do_not_matter_for_long_lines_and_many_moves(
    text: str, steps: list[int], longest: int, moves: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal_module, "MAX_LINE_CHARACTERS", longest)
        patch.setattr(terminal_module, "MAX_MOVES", moves)
        assert in_pieces(text, steps=steps) == as_seen(text)


def test_any_number_of_colours_is_left_out() -> None:
    for number in (1, 6, 7, 200):
        line = "".join(f"\x1b[38;5;{colour}mtext\x1b[0m " for colour in range(number)) + "\n"
        assert as_seen(line * 99) == ("text " * number + "\n") * 99


@given(text=TEXT)
def test_reading_again_changes_nothing_and_no_line_is_lost(text: str) -> None:
    seen = as_seen(text)
    assert as_seen(seen) == seen
    assert seen.count("\n") == text.count("\n")
    assert "\x1b" not in seen
    assert "\b" not in seen


@given(text=st.text(alphabet=st.sampled_from("ab\n\t\x00\x07漢\u0301"), max_size=80))
def test_text_without_controls_is_unchanged(text: str) -> None:
    terminal = Terminal()
    text = text.replace("\n", "\r\n")
    assert terminal.feed(text) + terminal.rest() == text
    assert not terminal.has_changed


def test_an_endless_line_is_held_up_to_a_bound() -> None:
    terminal = Terminal()
    settled = sum(len(terminal.feed("x" * 999)) for _ in range(1000))
    assert settled + len(terminal.rest()) == 999_000
    assert len(terminal.rest()) <= MAX_LINE_CHARACTERS


def test_a_sequence_longer_than_any_real_one_is_text() -> None:
    assert as_seen("\x1b]" + "x" * 5000 + "\x07") == "x" * 5000 + "\x07"


@pytest.mark.parametrize("piece", [1, 50, 10_000])
@pytest.mark.parametrize("after", ["", "\x1b(B"])
def test_a_colour_with_too_many_parameters_is_text_in_any_company(after: str, piece: int) -> None:
    text = "\x1b[" + "1" * 65 + "mred" + after
    assert in_pieces(text, steps=[piece]) == "1" * 65 + "mred"


@pytest.mark.parametrize("before", ["", "a line that is longer than all of the bar\r"])
@pytest.mark.parametrize("blank", ["", "      \r"])
def test_overwritten_text_stays_where_nothing_later_reaches(before: str, blank: str) -> None:
    text = f"{before}a bar \r{blank}bar 2\rbar\r"
    assert as_seen(text) == read_slowly(text)


def test_a_progress_bar_of_many_updates_shows_its_last() -> None:
    bar = "".join(f"\r{done:3}%|{'█' * (done // 10):10}| {done}/100" for done in range(101))
    assert as_seen(f"loading\n{bar}\nready\n") == f"loading\n100%|{'█' * 10}| 100/100\nready\n"


@pytest.mark.parametrize("text", ["a\x1b", "a\x1b[3", "a\r", "\x1b]0;title"])
def test_a_missing_end_is_a_change(text: str) -> None:
    terminal = Terminal()
    terminal.feed(text)
    assert terminal.has_changed
