"""The shorter form for the history of a conversation counts everything that the full output had."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Json
from sandbox.outputs.history import for_history
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.shapes import SHAPES, shape_for
from sandbox.outputs.shaping import nothing, shape, shape_value

LINES = "".join(f"line {number} is not long\n" for number in range(1, 20_001))


@pytest.mark.parametrize("output_type", ["knowledge_content", "file_content", "file_view_result"])
def test_the_shorter_form_counts_the_whole_output(output_type: str) -> None:
    first = shape(LINES, output_type=output_type, budget=60_000)
    second = for_history(first)
    head, tail = re.split(r"\[… [^…]*…\]", second.text)
    assert LINES.startswith(head)
    assert LINES.endswith(tail)
    assert (second.characters, second.shown) == (len(LINES), len(head) + len(tail))
    assert 10_000 < second.shown <= 12_000
    first_line, last_line = re.findall(r"lines (\d+)–(\d+)", second.text)[0]  # noqa: RUF001
    assert int(first_line) == head.count("\n") + 1
    assert int(last_line) == LINES.count("\n") - tail.count("\n") + 1
    assert f"{len(LINES) - second.shown} of {len(LINES)}" in second.text


def test_highlighted_lines_are_kept_for_the_history() -> None:
    lines = LINES.splitlines(keepends=True)
    lines[9_999] = "ERROR: the disk is full\n"
    first = shape("".join(lines), output_type="execution_result", budget=50_000)
    assert "\n[line 10000] ERROR: the disk is full\n" in for_history(first).text


def test_json_is_pruned_further_and_stays_json() -> None:
    first = shape_value({"rows": list(range(50_000)), "name": "Oslo"}, budget=50_000)
    second = for_history(first)
    shown = json.loads(second.text)
    (gone,) = [int(each.split()[1]) for each in shown["rows"] if isinstance(each, str)]
    assert gone + len(shown["rows"]) - 1 == 50_000
    assert shown["name"] == "Oslo"
    assert second.characters == first.characters
    assert f"{first.characters - second.shown} of {first.characters}" in shown["…"]


def test_the_rows_of_a_table_keep_their_numbers() -> None:
    rows: list[Json] = [[number, "x"] for number in range(1, 30_001)]
    columns: list[Json] = [{"name": "id", "dtype": "int64"}, {"name": "x", "dtype": "object"}]
    value: Json = {"$type": "table", "columns": columns, "rows": rows, "row_count": 30_000}
    second = for_history(shape_value(value, budget=50_000))
    above, below = re.split(r"\[… [^…]*…\]\n", second.text)
    first_row, last_row = re.findall(r"rows (\d+)–(\d+)", second.text)[0]  # noqa: RUF001
    assert above.startswith("30000 rows × 2 columns\n")  # noqa: RUF001
    assert int(first_row) == int(above.splitlines()[-1].split(" | ")[0]) + 1
    assert int(last_row) + 1 == int(below.splitlines()[0].split(" | ")[0])


@pytest.mark.parametrize("output_type", SHAPES)
def test_short_text_is_unchanged(output_type: str) -> None:
    for shaped in (nothing(output_type), shape("a\nb\n" * 400, output_type=output_type, budget=1_000)):
        assert for_history(shaped) is shaped


@given(
    text=st.lists(st.sampled_from(["word. ", "\n", "an error\n", "漢\u0301", "x" * 300]), max_size=90).map("".join),
    output_type=st.sampled_from([name for name, form in SHAPES.items() if form.budget and name != "json_data"]),
    factor=st.integers(1, 40),
)
def test_the_history_form_is_within_its_budget_and_stable(text: str, output_type: str, factor: int) -> None:
    second = for_history(shape(text * factor, output_type=output_type, budget=30_000))
    assert len(strip_notices(second.text)) <= shape_for(output_type).history
    assert for_history(second) == second


def test_the_history_form_may_be_limited_in_tokens() -> None:
    shaped = shape("one two three\n" * 500, output_type="file_content", budget=60_000)
    remembered = for_history(shaped, tokens=90, tokenizer=str.split)
    assert 60 <= len(strip_notices(remembered.text).split()) <= 90
    assert remembered.characters == shaped.characters
    assert for_history(shaped, tokens=9_000, tokenizer=str.split) == shaped
