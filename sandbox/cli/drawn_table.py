"""A table that a tool returned, as people read one: cells stand below the name of their column, numbers to the right.

Only where all of it is at hand and fits, in width too; anything else is shown as the text that it is shaped to.
"""

from __future__ import annotations

from typing import Any, Final

from rich.cells import cell_len

from sandbox.cli.escape import one_line, visible
from sandbox.cli.tables import Cell, Page
from sandbox.outcome import Json
from sandbox.outputs.shapes.table import Table, cell, read_table, size_of

_MOST_CELLS: Final = 2000
_AROUND_A_CELL: Final = 3


def drawn_table(value: Json, *, width: int) -> Page | None:
    """The value, if it is such a table."""
    table = read_table(value)
    if table is None or not _is_regular(table) or not isinstance(value, dict):
        return None
    told: Any = value["columns"]
    columns = [_column(each, [row[number] for row in table.rows]) for number, each in enumerate(told)]
    if sum(cell_len(column[0]) + _AROUND_A_CELL for column in columns) > width:
        return None
    page = Page()
    page.line(size_of(table), style="dim")
    names, dtypes, *rows = zip(*columns, strict=True)
    heads = [f"{name}\n{dtype}" for name, dtype in zip(names, dtypes, strict=True)]
    page.table(heads, [[Cell(each) for each in row] for row in rows], whole=len(heads))
    return page


def _is_regular(table: Table) -> bool:
    """Whether every row is there, and has as many cells as there are columns."""
    is_whole = not table.missing and all(len(row) == len(table.columns) for row in table.rows)
    return is_whole and 0 < len(table.columns) * (len(table.rows) + 1) <= _MOST_CELLS


def _column(told: dict[str, Any], values: list[Json]) -> list[str]:
    """Its name, its type and its cells, all of one width."""
    texts = [one_line(told["name"]), one_line(told["dtype"]), *(visible(cell(value)) for value in values)]
    width = max(map(cell_len, texts))
    are_numbers = all(value is None or type(value) in (int, float) for value in values)
    blanks = [" " * (width - cell_len(text)) for text in texts]
    return [blank + text if are_numbers else text + blank for text, blank in zip(texts, blanks, strict=True)]
