"""A caret stands under its place, in columns of a terminal."""

from __future__ import annotations

import pytest

from sandbox.tools.check import check_source
from sandbox.tools.safe_text import caret_picture, columns
from sandbox.tools.types.validation_budget import MAX_PATTERN_COST, pattern_cost


@pytest.mark.parametrize(
    ("line", "column", "blanks"),
    [
        ("x = y", 5, 4),
        ("\tx = y", 6, 5),
        ("城市 = y", 6, 7),
        ("e\u0301 = y", 6, 4),
        ("ｆ = y", 5, 5),  # noqa: RUF001
        ("x", 9, 1),
        ("", 1, 0),
    ],
    ids=["plain", "a tab is one", "wide letters are two", "marks are none", "full width", "past the end", "empty"],
)
def test_a_caret_is_moved_by_columns(line: str, column: int, blanks: int) -> None:
    assert caret_picture(line, column, width=80, before=40) == (line.replace("\t", " "), " " * blanks)


def test_a_long_line_shows_where_it_was_cut() -> None:
    shown, blanks = caret_picture("a" * 50 + "城b" + "c" * 100, 52, width=40, before=20)
    assert shown == "…" + "a" * 18 + "城b" + "c" * 18 + "…"
    assert len(blanks) == columns("…" + "a" * 18 + "城") == 21


def test_a_syntax_error_is_shown_under_its_place() -> None:
    (problem,) = check_source('x = "城市"; y = = 3\n').problems
    line, caret = problem.message.split("\n")[1:]
    assert columns(line[: line.index("= 3")]) == len(caret) - 1


@pytest.mark.parametrize(
    ("pattern", "states"),
    [("abc", 3), (r"\d{4}-\d{2}", 6001), ("(ab){3}", 6), ("((a{2}){3}b){10}", 70), ("[^a-z]", 1000), ("((((", 0)],
)
def test_the_effort_of_a_pattern_is_its_states(pattern: str, states: int) -> None:
    assert pattern_cost(pattern) - pattern_cost("") == states


def test_a_source_of_too_many_large_patterns_is_refused() -> None:
    large = ", ".join(
        f"a{number}: Annotated[str, Field(pattern='(.[^x]{{900}}){{{number}}}')]" for number in range(1, 9)
    )
    told = [each.path for each in check_source(f"def f({large}): ...").problems if "too large" in each.message]
    assert 8 * pattern_cost("[^x]{900}") > MAX_PATTERN_COST
    assert told
    assert "f.a1" not in told
