"""Highlighted lines of the middle are the same for any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox.outputs.highlights import ErrorHighlights, FailureHighlights, FrameHighlights, Highlighter
from sandbox.outputs.terminal import MAX_LINE_CHARACTERS

OWN = '  File "/work/tool.py", line 3, in run\n'
LIBRARY = '  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads\n'
LINE = st.sampled_from(
    ["fine\n", "\n", "an Error\n", "FAILED 3\n", OWN, LIBRARY, "    code()\n", "    ^^^^\n", "X: no\n"]
)
LINES = st.lists(LINE, max_size=120)
SPELLED = ["error", "Error", "ERROR", "exception", "Exception", "fail", "Fail", "FAIL", "fatal", "Fatal", "FATAL"]
WORD = st.sampled_from([*SPELLED, "eRRor", "faIl", "EXCEPTION", "surface", "default", "errâor", "漢", "fa", " ", "x"])
WORDS = st.lists(st.lists(WORD, max_size=3).map("".join), max_size=200)


def feed(marks: Highlighter, pieces: list[str]) -> None:
    for piece in pieces:
        marks.feed(piece, newlines=piece.count("\n"))


@given(lines=LINES, size=st.integers(1, 9))
def test_highlights_are_the_same_for_any_pieces_of_whole_lines(lines: list[str], size: int) -> None:
    for kind in (ErrorHighlights, FrameHighlights, FailureHighlights):
        at_once, in_pieces = kind(), kind()
        feed(at_once, ["".join(lines)])
        feed(in_pieces, ["".join(lines[at : at + size]) for at in range(0, len(lines), size)])
        in_pieces.feed("end\n" * 9, newlines=9)
        at_once.feed("end\n" * 9, newlines=9)
        assert at_once.highlights() == in_pieces.highlights()


@given(lines=WORDS, size=st.integers(1, 9))
def test_highlighted_errors_equal_those_of_a_search_line_by_line(lines: list[str], size: int) -> None:
    marks = ErrorHighlights()
    feed(marks, ["".join(f"{line}\n" for line in lines[at : at + size]) for at in range(0, len(lines), size)])
    found = [number for number, line in enumerate(lines, 1) if any(each in line for each in SPELLED)]
    assert [mark.line for mark in marks.highlights()] == sorted({*found[:32], *found[-32:]})


@given(lines=LINES)
def test_a_highlight_has_its_line_number(lines: list[str]) -> None:
    text = "".join(lines) + "end\n" * 9
    for marks in (ErrorHighlights(), FrameHighlights(), FailureHighlights()):
        feed(marks, [text])
        for mark in marks.highlights():
            assert text.startswith(mark.text, mark.at)
            assert mark.line == 1 + text[: mark.at].count("\n")


def test_the_first_and_last_of_many_errors_are_kept() -> None:
    marks = ErrorHighlights()
    feed(marks, [f"error {number}\n" for number in range(1000)])
    assert [mark.line for mark in marks.highlights()] == [*range(1, 33), *range(969, 1001)]


def test_errors_are_found_in_their_usual_spellings() -> None:
    said = [
        "error: x",
        "TypeError: x",
        "ERROR x",
        "Exception in thread",
        "exception",
        "2 failed",
        "FAIL: test",
        "Failed",
    ]
    said += ["fatal: not a repository", "FATAL", "Fatal"]
    marks = ErrorHighlights()
    feed(marks, ["".join(f"fine\n{each}\n" for each in said)])
    assert [mark.text for mark in marks.highlights()] == said


def test_a_line_too_long_to_hold_is_no_highlight() -> None:
    marks = ErrorHighlights()
    feed(marks, ["error " + "x" * MAX_LINE_CHARACTERS, "error\n", "error\n"])
    assert [mark.line for mark in marks.highlights()] == [2]


def test_the_last_own_frames_are_kept_with_their_code_and_message() -> None:
    code = "    code()\n"
    marks = FrameHighlights()
    feed(marks, [*[OWN, code] * 9, *[LIBRARY, code] * 50, "app.Wrong: message\n", "more\n" * 9])
    found = [mark.text for mark in marks.highlights()]
    assert found[:3] == [OWN + code, OWN + code, OWN + code]
    assert found[3].startswith(LIBRARY + code + "app.Wrong: message\n")
    assert len(found) == 4


def test_a_frame_is_vital_and_a_neighbouring_error_is_not() -> None:
    marks = FailureHighlights()
    feed(marks, ["error: one\n", OWN, "    code()\n", "ValueError: no\n", "more\n" * 9, "error: two\n"])
    assert [(mark.line, mark.is_vital) for mark in marks.highlights()] == [(1, False), (2, True), (14, False)]
