"""A table on a terminal has aligned columns, or plain text where columns do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cli.tables import drawn_table


def table(*rows: list[Any], names: str = "id name", count: int | None = None) -> dict[str, Any]:
    columns = [{"name": name, "dtype": "object"} for name in names.split()]
    return {"$type": "table", "columns": columns, "rows": [*rows], "row_count": len(rows) if count is None else count}


def test_cells_are_aligned_and_numbers_to_the_right(capfd: pytest.CaptureFixture[str]) -> None:
    page = drawn_table(table([7, "Oslo"], [-1.25, "漢字\n\x1b[2J"], [None, True]), width=80)
    assert page is not None
    page.show()
    assert capfd.readouterr().out.splitlines() == [
        "3 rows × 2 columns",  # noqa: RUF001
        "     id   name",
        " object   object",
        " ────────────────────────",
        "      7   Oslo",
        "  -1.25   漢字\\n\\u001b[2J",
        "   null   true",
    ]


@pytest.mark.parametrize(
    ("value", "width"),
    [
        (table([1, "x" * 70]), 80),
        (table([1, "漢" * 35]), 80),
        (table([1, "a"], count=9), 80),
        (table([1, "a"], [2]), 80),
        (table(names=""), 80),
        (table(*([number, "a"] for number in range(5000))), 80),
        ({"$type": "table"}, 80),
        ([1, 2], 80),
    ],
)
def test_tables_that_do_not_fit_or_are_incomplete_are_not_drawn(value: Any, width: int) -> None:
    assert drawn_table(value, width=width) is None
