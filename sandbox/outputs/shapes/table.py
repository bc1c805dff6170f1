"""Tables: the columns, the number of rows, and the first and the last rows.

A table is a JSON value that says so, which is what a data frame becomes on its way out of a box::

    {"$type": "table", "columns": [{"name": "id", "dtype": "int64"}, …], "rows": [[1, …], …], "row_count": 1000}

If a table was too large to be sent, `first_rows` of the rows are its first, and the others its last. The text of a
table is its size, the columns with their types, then a line for each row. Over the budget, long cells are cut first,
then the columns in the middle are left out, until a few rows have room; the notice says which rows are missing. The
first line of any other text of this type names its columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sandbox.outcome import Json
from sandbox.outputs.boundaries import prefix, prefix_of_lines, suffix_of_lines
from sandbox.outputs.notices import Notice
from sandbox.outputs.shapes.shape import Fit
from sandbox.outputs.shapes.texts import Cut, cut_lines, fit_ends, lines_of_gap
from sandbox.outputs.text_ends import TextEnds

TABLE: Final = "table"
TYPE_KEY: Final = "$type"
_BETWEEN: Final = " | "
_SIZE: Final = re.compile(r"\d+ rows? × \d+ columns?\r?\n")  # noqa: RUF001
_CELLS: Final = (200, 80, 40, 20, 10)
_NARROWEST: Final = _CELLS[-1] + len(_BETWEEN)
_FEW_ROWS: Final = 6
_BREAKS: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\x0b": "\\v", "\x0c": "\\f"})


@dataclass(frozen=True, slots=True)
class TableValue:
    """The content of a table value."""

    columns: tuple[str, ...]
    rows: list[list[Json]]
    row_count: int
    first: int
    """The number of rows before the rows that were not sent."""

    @property
    def missing(self) -> int:
        """How many those are."""
        return self.row_count - len(self.rows)

    @property
    def entries(self) -> list[list[Json] | None]:
        """The rows, with None in the place of those."""
        if not self.missing:
            return [*self.rows]
        return [*self.rows[: self.first], None, *self.rows[self.first :]]


def table(ends: TextEnds, budget: int, notice: Notice) -> Fit:
    """Return the first lines, which say what the columns are, with the first rows and the last."""
    read = read_table(ends.parsed.value) if ends.parsed else None
    if read is not None:
        ends = _narrow(read, budget)
        notice = replace(notice, is_partial=read.missing > 0)
        if ends.is_whole and ends.characters <= budget:  # no row is missing, only parts of some
            return Fit(ends.head + notice.gap(shown=ends.characters), ends.characters)
    header = _header(ends)
    if not header or len(header) > budget // 2:
        return fit_ends(ends, cut_lines(ends, first=budget // 2, budget=budget), notice)
    head = header + prefix_of_lines(ends.head[len(header) :], most=(budget - len(header)) // 2)
    cut = Cut(head, suffix_of_lines(ends.tail, most=budget - len(head)))
    first, last = lines_of_gap(ends, cut)
    above = header.count("\n")
    rows = (max(first - above, 1), max(last - above, 1))
    return Fit(head + notice.gap(shown=cut.shown, lines=rows, unit="row") + cut.tail, cut.shown)


def read_table(value: Json) -> TableValue | None:
    """Return the table in a value, or None if the value is not a valid table."""
    if not isinstance(value, dict) or value.get(TYPE_KEY) != TABLE:
        return None
    columns, rows, count = value.get("columns"), value.get("rows"), value.get("row_count")
    if not isinstance(columns, list) or not isinstance(rows, list) or not isinstance(count, int):
        return None
    names = tuple(_column(each) for each in columns)
    if "" in names or not all(isinstance(row, list) for row in rows):
        return None
    first = value.get("first_rows")
    is_known = isinstance(first, int) and 0 <= first <= len(rows)
    return TableValue(names, rows, max(count, len(rows)), first if is_known else len(rows))  # type: ignore[arg-type]


def table_text(table: TableValue) -> str:
    """Return all of it as text."""
    return _heading(table, table.columns) + "".join(_entry(each, table) for each in table.entries)


def _column(column: Any) -> str:
    if not isinstance(column, Mapping):
        return ""
    name, dtype = column.get("name"), column.get("dtype")
    return f"{cell(name)} ({cell(dtype)})" if isinstance(name, str) and isinstance(dtype, str) else ""


def size_of(table: TableValue) -> str:
    """Return the size as text, such as `5 rows × 1 column`."""  # noqa: RUF002
    rows = f"{table.row_count} row{'' if table.row_count == 1 else 's'}"
    return f"{rows} × {len(table.columns)} column{'' if len(table.columns) == 1 else 's'}"  # noqa: RUF001


def _heading(table: TableValue, columns: tuple[str, ...]) -> str:
    return f"{size_of(table)}\n{_BETWEEN.join(columns)}\n"


def _entry(row: Sequence[Json] | None, table: TableValue, most: int | None = None) -> str:
    """Return the line of a row, or the line for the rows that were not sent."""
    return f"… {table.missing} more rows\n" if row is None else _line(list(row), most)


def _line(row: list[Json], most: int | None = None) -> str:
    return _BETWEEN.join(cell(each, most) for each in row) + "\n"


def cell(value: Json, most: int | None = None) -> str:
    """Return a value as it stands in a row, on one line."""
    text = _plain(value)
    return text if most is None or len(text) <= most else prefix(text, most=most - 1) + "…"


def _plain(value: Json) -> str:
    if type(value) is str:
        return value if value.isprintable() else value.translate(_BREAKS)
    if type(value) is float or type(value) is int:
        return repr(value)  # as JSON has it, and several times as fast
    return json.dumps(value, ensure_ascii=False)


def _narrow(table: TableValue, budget: int) -> TextEnds:
    """Return as much of each end as the budget could show, in columns and cells that leave room for a few rows."""
    width = len(table.columns)
    shown, heading = width, _heading(table, table.columns)
    while shown > 2 and (len(heading) > budget // 3 or _NARROWEST * shown > (budget - len(heading)) // _FEW_ROWS):
        shown = max(shown * 3 // 4, 2)
        gap = f"… {width - shown} more columns"
        heading = _heading(table, _without_middle(table.columns, shown, width, gap))
    most_rows = budget // len(_BETWEEN * (shown - 1) + "\n") + 1
    first, last = (
        [None if row is None else _without_middle(tuple(row), shown, width) for row in end]
        for end in (table.entries[:most_rows], table.entries[-most_rows:])
    )
    rows = [row for row in first + last if row is not None]
    most = next(_fitting(rows, room=(budget - len(heading)) // _FEW_ROWS), _CELLS[-1])
    head = heading + "".join(_entry(row, table, most) for row in first)
    tail = "".join(_entry(row, table, most) for row in last)
    if len(first) == len(table.entries):
        return TextEnds.whole(head)
    is_between = 0 < table.first < len(table.rows)
    lines = table.row_count if is_between else len(table.entries)
    return TextEnds(head=head, tail=tail, characters=len(head) + len(tail), newlines=2 + lines)


def _fitting(rows: list[tuple[Json, ...]], *, room: int) -> Iterator[int | None]:
    """Yield the lengths of cells, the longest first, for which the rows have room."""
    few = rows[:_FEW_ROWS] + rows[-_FEW_ROWS:]
    for most in (None, *_CELLS):
        if all(len(_line(list(row), most)) <= room for row in few):
            yield most


def _without_middle(cells: tuple[Any, ...], shown: int, width: int, gap: str = "…") -> tuple[Any, ...]:
    """Return `shown` of the cells, from both sides."""
    if shown >= width or len(cells) != width:
        return cells
    left = (shown + 1) // 2
    return (*cells[:left], gap, *cells[left - shown :])


def _header(ends: TextEnds) -> str:
    """Return the lines that say what the columns are."""
    size = _SIZE.match(ends.head)
    end = ends.head.find("\n", size.end() if size else 0)
    return ends.head[: end + 1]
