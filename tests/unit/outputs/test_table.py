"""A shaped table shows its columns, the number of its rows, and its first and last rows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Json
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.shaping import shape, shape_value, value_type


def table(rows: list[Json], *columns: str, count: int | None = None) -> dict[str, Json]:
    heads: list[Json] = [{"name": name, "dtype": "object"} for name in columns]
    return {"$type": "table", "columns": heads, "rows": rows, "row_count": len(rows) if count is None else count}


CITIES = table([[number, f"city {number}"] for number in range(1000)], "id", "name")
CELL = st.none() | st.booleans() | st.integers() | st.text(st.sampled_from("ab|\n\r漢\u0301"), max_size=90)


def test_a_table_is_read_row_by_row() -> None:
    shaped = shape_value(table([[1, "Oslo"], [None, "a\nb"]], "id", "name"), budget=999)
    assert shaped.type == "table"
    assert shaped.text == "2 rows × 2 columns\nid (object) | name (object)\n1 | Oslo\nnull | a\\nb\n"  # noqa: RUF001


def test_a_table_over_budget_shows_its_first_and_last_rows() -> None:
    shaped = shape_value(CITIES, budget=150)
    assert shaped.text == (
        "1000 rows × 2 columns\nid (object) | name (object)\n0 | city 0\n1 | city 1\n2 | city 2\n3 | city 3\n"  # noqa: RUF001
        f"[… {shaped.characters - shaped.shown} of {shaped.characters} characters omitted (rows 5–997) …]\n"  # noqa: RUF001
        "997 | city 997\n998 | city 998\n999 | city 999\n"
    )


def test_a_wide_table_shows_its_outer_columns_and_counts_the_rest() -> None:
    columns = [f"column {number}" for number in range(100)]
    rows: list[Json] = [list(range(row, row + 100)) for row in range(500)]
    lines = shape_value(table(rows, *columns), budget=2000).text.splitlines()
    assert lines[0] == "500 rows × 100 columns"  # noqa: RUF001
    missing = re.search(r" \| … (\d+) more columns \| ", lines[1])
    assert missing
    assert lines[1].count("column ") == 100 - int(missing[1])
    assert lines[2].startswith("0 | 1 | 2 | ")
    assert lines[-1].endswith("597 | 598")
    assert len(lines) > 10


def test_long_cells_are_cut_before_rows_are_lost() -> None:
    shaped = shape_value(table([[number, "x" * 5000] for number in range(50)], "id", "text"), budget=2000)
    rows = [line for line in shaped.text.splitlines() if re.match(r"\d+ \| x+…$", line)]
    assert len(rows) >= 6


def test_cutting_cells_loses_no_row() -> None:
    shaped = shape_value(table([[number, "x" * 5000] for number in range(5)], "id", "text"), budget=2000)
    rows, _, notice = shaped.text.partition("[… ")
    assert [line.split(" | ")[0] for line in rows.splitlines()[2:]] == ["0", "1", "2", "3", "4"]
    assert notice == f"{shaped.characters - shaped.shown} of {shaped.characters} characters omitted …]"


def test_rows_that_were_not_sent_are_counted() -> None:
    assert shape_value(table([[1]], "id", count=9), budget=99).text.endswith("\n1\n… 8 more rows\n")


def test_rows_that_were_not_sent_are_missing_in_the_middle() -> None:
    rows: list[Json] = [[number] for number in (*range(500), *range(9_500, 10_000))]
    sent = table(rows, "id", count=10_000) | {"first_rows": 500}
    whole = shape_value(sent, budget=60_000).text
    assert "\n499\n… 9000 more rows\n9500\n" in whole
    assert not shape_value(sent, budget=60_000).truncated
    text = shape_value(sent, budget=300, artifact="a1").text
    assert text.startswith("10000 rows")
    assert text.endswith("\n9999\n")
    found = re.search(r"\(rows (\d+)\N{EN DASH}(\d+)\); kept output: artifact a1", text)
    assert found is not None
    above, below = text.split("[…")[0].splitlines()[-1], text.rsplit("…]")[-1].split("\n")[1]
    assert (int(found[1]), int(found[2])) == (int(above) + 2, int(below))


@pytest.mark.parametrize(
    "value",
    [
        {"$type": "table"},
        {"$type": "table", "columns": [{"name": "a"}], "rows": [], "row_count": 0},
        {"$type": "table", "columns": [], "rows": [1], "row_count": 1},
        {"$type": "table", "columns": 3, "rows": [], "row_count": 0},
        {"columns": [], "rows": [], "row_count": 0},
    ],
)
def test_a_malformed_table_is_json(value: Json) -> None:
    assert value_type(value) == "json_data"
    assert shape_value(value, output_type="table", budget=999).text.startswith("{")


def test_a_text_table_keeps_the_line_of_its_columns() -> None:
    text = "id,name\n" + "".join(f"{number},city {number}\n" for number in range(1000))
    shaped = shape(text, output_type="table", budget=60)
    assert shaped.text.startswith("id,name\n0,city 0\n1,city 1\n[… ")
    assert shaped.text.endswith("(rows 3–998) …]\n998,city 998\n999,city 999\n")  # noqa: RUF001


@given(
    rows=st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=30),
    ragged=st.lists(st.lists(CELL, max_size=5), max_size=3),
    budget=st.integers(0, 700),
)
def test_a_table_keeps_the_promises_of_every_shape(rows: list[Json], ragged: list[Json], budget: int) -> None:
    shaped = shape_value(table(rows + ragged, "a", "b" * 40, "c"), budget=budget)
    assert len(strip_notices(shaped.text)) <= budget
    assert shaped.shown <= budget
    assert shape(shaped.text, output_type="table", budget=budget).text == shaped.text
    assert shaped.truncated == (shaped.characters > budget)
