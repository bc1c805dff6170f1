"""Tables and facts for people, drawn by rich. Commands import this module only when they draw.

The text of a cell may come from a policy file or a box, so rich never reads it as markup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich import table as rich_table
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from sandbox.cli.terminal import glyph, one_line, show, visible
from sandbox.outcome import Json
from sandbox.outputs.shapes.table import TableValue, cell, read_table, size_of

_NARROWEST, _WIDEST = 60, 120
"""Narrower columns would cut names to nothing; a terminal wraps long lines anyway."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with its style; `note` appears dimmed below it."""

    text: str
    style: str = ""
    note: str = ""

    def drawn(self) -> Text:
        """Return the cell as rich text."""
        text = Text(visible(self.text), style=self.style)
        if self.note:
            text = Text.assemble(text, "\n" if self.text else "", (visible(self.note), "dim"))
        return text


def mark(good: bool, *, matters: bool = True) -> Cell:
    """Return ✓, or ✗ in red if it matters and in yellow if not."""
    if good:
        return Cell(glyph("✓", plain="yes", on=sys.stdout), "bold green")
    return Cell(glyph("✗", plain="NO", on=sys.stdout), "bold red" if matters else "bold yellow")


def arrow(text: str | None) -> str:
    """Return the remedy with an arrow before it."""
    return f"{glyph('→', plain='->', on=sys.stdout)} {text}" if text else ""


def screen_width() -> int:
    """Return the width of tables."""
    return min(max(_NARROWEST, Console(file=sys.stdout).width), _WIDEST)


class ConsolePage:
    """Tables and lines, printed together."""

    def __init__(self) -> None:
        self._parts: list[RenderableType] = []

    def title(self, text: str, *, note: str = "") -> None:
        """Add a heading."""
        line = Text.assemble((visible(text), "bold"), (f"  {visible(note)}" if note else "", "dim"))
        self._parts += ["", line] if self._parts else [line]

    def line(self, text: str, *, style: str = "", in_one_piece: bool = False) -> None:
        """Add a paragraph; `in_one_piece` leaves line breaks to the terminal."""
        self._parts.append(Text(visible(text), style=style, no_wrap=in_one_piece))

    def facts(self, facts: Mapping[str, str]) -> None:
        """Add one line per fact; paths and digests stay unbroken, so that users can copy them."""
        width = max(map(len, facts), default=0)
        for name, fact in facts.items():
            line = Text.assemble((f" {visible(name):{width}}   ", "dim"), visible(fact))
            line.no_wrap = True
            self._parts.append(line)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, whole: int = 1) -> None:
        """Add a table; the first `whole` columns keep their width and the others shrink on a narrow terminal."""
        table = rich_table.Table(
            box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False, padding=(0, 2, 0, 0)
        )
        table.show_header = any(columns)
        for number, column in enumerate(columns):
            table.add_column(column, no_wrap=number < whole, overflow="fold")
        for row in rows:
            table.add_row(*(cell.drawn() for cell in row))
        self._parts.append(Padding(table, (0, 0, 0, 1)))

    def show(self) -> None:
        """Print everything on stdout, as wide as the terminal up to a readable limit."""
        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        width = screen_width()
        console.width = max(width, console.width)
        with console.capture() as captured:
            for part in self._parts:
                is_in_one_piece = isinstance(part, Text) and bool(part.no_wrap)
                console.print(part, width=None if is_in_one_piece else width, soft_wrap=is_in_one_piece)
        show("".join(f"{line.rstrip(' ')}\n" for line in captured.get().splitlines()))


_MOST_CELLS: Final = 2000
_AROUND_A_CELL: Final = 3


def drawn_table(value: Json, *, width: int) -> ConsolePage | None:
    """Draw the value if it is a complete table that fits; numbers are right-aligned."""
    table = read_table(value)
    if table is None or not _is_regular(table) or not isinstance(value, dict):
        return None
    told: Any = value["columns"]
    columns = [_column(each, [row[number] for row in table.rows]) for number, each in enumerate(told)]
    if sum(cell_len(column[0]) + _AROUND_A_CELL for column in columns) > width:
        return None
    page = ConsolePage()
    page.line(size_of(table), style="dim")
    names, dtypes, *rows = zip(*columns, strict=True)
    heads = [f"{name}\n{dtype}" for name, dtype in zip(names, dtypes, strict=True)]
    page.table(heads, [[Cell(each) for each in row] for row in rows], whole=len(heads))
    return page


def _is_regular(table: TableValue) -> bool:
    """Return whether no row is missing and every row has one cell per column."""
    is_whole = not table.missing and all(len(row) == len(table.columns) for row in table.rows)
    return is_whole and 0 < len(table.columns) * (len(table.rows) + 1) <= _MOST_CELLS


def _column(told: dict[str, Any], values: list[Json]) -> list[str]:
    """Return the column's name, type and cells, padded to one width."""
    texts = [one_line(told["name"]), one_line(told["dtype"]), *(visible(cell(value)) for value in values)]
    width = max(map(cell_len, texts))
    are_numbers = all(value is None or type(value) in (int, float) for value in values)
    blanks = [" " * (width - cell_len(text)) for text in texts]
    return [blank + text if are_numbers else text + blank for text, blank in zip(texts, blanks, strict=True)]
