"""Progress of an environment's build, shown on stderr.

On a terminal, a few lines stay in place, one per stage, and disappear when the build ends. Elsewhere each stage prints
one plain line when it begins. Without a build nothing is shown and rich is not imported.

Events come from several threads of the engine at once. Each event only records its state; rich's own thread draws.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sandbox.cli.terminal import glyph, is_terminal, one_line, rounded_bytes, rounded_seconds, tell
from sandbox.environments.progress import OnProgress, Progress, Stage, ignore_progress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.table import Table

_DOING: Final[dict[Stage, str]] = {
    "wait": "waiting",
    "resolve": "resolving",
    "download": "downloading",
    "unpack": "unpacking",
    "compile": "compiling",
    "verify": "verifying",
    "publish": "publishing",
}
_DONE: Final[dict[Stage, str]] = {
    "wait": "waited",
    "resolve": "resolved",
    "download": "downloaded",
    "unpack": "unpacked",
    "compile": "compiled",
    "verify": "verified",
    "publish": "published",
}
_MEASURED: Final[tuple[Stage, ...]] = ("download", "unpack", "compile")
_LONGEST_DETAIL: Final = 48
_BAR_WIDTH: Final = 24
_WIDEST: Final = 100
_WIDE_ENOUGH: Final = 80
_A_MINUTE_S: Final = 60.0
_FRAMES_PER_S: Final = 12


@contextmanager
def build_progress(*, is_shown: bool) -> Iterator[OnProgress]:
    """Yield the `on_progress` callback for an engine; the terminal is clean again at the end of the block."""
    if not is_shown:
        yield ignore_progress
    elif not is_terminal(sys.stderr) or os.environ.get("TERM", "dumb") == "dumb":
        yield _Lines()
    else:
        display = Display()
        try:
            yield display
        finally:
            display.end()


class _Lines:
    """Print one line when a stage begins, and one for each warning."""

    def __init__(self) -> None:
        self._told: set[Stage] = set()
        self._warn = Warnings()

    def __call__(self, event: Progress) -> None:
        if event.stage == "warn":
            self._warn(event)
            return
        if event.stage == "ready" or event.stage in self._told:
            return
        self._told.add(event.stage)
        detail = "wheels" if event.stage == "download" else one_line(event.text, most=100)
        tell(f"{_DOING[event.stage]} {detail}\n")


class Warnings:
    """Print one line for each distinct warning, and nothing about stages."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, event: Progress) -> None:
        if event.stage == "warn" and event.text not in self._told:
            self._told.add(event.text)
            tell(f"warning: {one_line(event.text)}\n")


@dataclass(slots=True)
class Step:
    """The state of one stage."""

    stage: Stage
    began: float
    ended: float | None = None
    text: str = ""
    parts: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Done and total for each part: each wheel of a download, or the whole of any other stage."""

    def note(self, event: Progress) -> None:
        """Record one event of this stage."""
        is_split = self.stage == "download"
        if is_split or not self.text or event.total is None:
            self.text = one_line(event.text, most=_LONGEST_DETAIL)
        # Replaced, never changed in place: the drawing thread reads it meanwhile.
        self.parts = {**self.parts, (event.text if is_split else ""): (event.done, event.total)}

    @property
    def done(self) -> int:
        """Return the sum of all parts that are done."""
        return sum(done for done, _ in self.parts.values())

    @property
    def total(self) -> int | None:
        """Return the total if every part has one, otherwise None."""
        totals = [total for _, total in self.parts.values()]
        return sum(total or 0 for total in totals) or None if None not in totals else None

    @property
    def detail(self) -> str:
        """Return a few words on the subject of this stage."""
        if self.stage != "download":
            return self.text
        under_way = [name for name, (done, total) in self.parts.items() if done != total]
        if self.ended is not None or not under_way:
            return f"{len(self.parts)} wheels" if len(self.parts) > 1 else self.text
        return one_line(", ".join(under_way), most=_LONGEST_DETAIL)

    @property
    def figure(self) -> str:
        """Return the progress in numbers."""
        done, total = self.done, self.total
        if self.stage == "download":
            is_part = total is not None and self.ended is None
            return f"{rounded_bytes(done)} of {rounded_bytes(total or 0)}" if is_part else rounded_bytes(done)
        if self.stage in _MEASURED and total is not None and self.ended is None:
            return f"{done} of {total}"
        return ""

    @property
    def elapsed(self) -> float:
        """Return the seconds that the stage has taken so far."""
        return (self.ended or time.monotonic()) - self.began


class Display:
    """The lines on a terminal. Any thread may call its methods; the first event makes it visible."""

    def __init__(self) -> None:
        self._steps: tuple[Step, ...] = ()
        self._guard = threading.Lock()
        self._live: Live | None = None
        self._warnings: tuple[Progress, ...] = ()
        self._warn = Warnings()

    def __call__(self, event: Progress) -> None:
        if event.stage == "ready":
            self.end()
            return
        if event.stage == "warn":
            with self._guard:
                self._warnings = (*self._warnings, event)
            return
        with self._guard:
            self._step_of(event.stage).note(event)
            if self._live is None:
                self._live = self._opened()

    def end(self) -> None:
        """Remove the lines; warnings stay."""
        with self._guard:
            live, self._live = self._live, None
            self._steps = ()
            if live is not None:
                live.stop()
            for event in self._warnings:
                self._warn(event)
            self._warnings = ()

    def _step_of(self, stage: Stage) -> Step:
        """Return the step of this stage; end the steps before it, and restart a step that comes again."""
        now = time.monotonic()
        if self._steps and self._steps[-1].stage == stage:
            return self._steps[-1]
        for step in self._steps:
            step.ended = step.ended or now
        self._steps = (*(step for step in self._steps if step.stage != stage), Step(stage, now))
        return self._steps[-1]

    def _opened(self) -> Live:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        spinner = Spinner("dots" if glyph("⠋", plain="", on=sys.stderr) else "line", style="cyan")
        live = Live(
            console=console,
            get_renderable=lambda: drawn(self._steps, spinner=spinner, width=min(console.width, _WIDEST)),
            refresh_per_second=_FRAMES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live


def drawn(steps: Sequence[Step], *, spinner: Spinner, width: int) -> Table:
    """Draw one line per step: mark, stage, subject, progress and time, in fixed columns."""
    from rich.table import Table

    is_wide = width >= _WIDE_ENOUGH
    table = Table.grid(padding=(0, 1), expand=True)
    table.width = width
    table.add_column(width=1)
    table.add_column(width=11, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    if is_wide:
        table.add_column(width=_BAR_WIDTH)
    table.add_column(width=20, no_wrap=True, overflow="ellipsis", justify="right")
    table.add_column(width=7, no_wrap=True, overflow="ellipsis", justify="right")
    for step in steps:
        cells = list(_cells(step, spinner))
        table.add_row(*(cells if is_wide else [*cells[:3], *cells[4:]]))
    return table


def _cells(step: Step, spinner: Spinner) -> Iterator[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    is_over = step.ended is not None
    style = "dim" if is_over else ""
    yield Text(glyph("✓", plain="*", on=sys.stderr), style="green dim") if is_over else spinner
    yield Text((_DONE if is_over else _DOING)[step.stage], style=style)
    yield Text(step.detail, style=style)
    if step.total and not is_over and step.stage in _MEASURED:
        yield ProgressBar(step.total, step.done, width=_BAR_WIDTH, complete_style="cyan", finished_style="cyan")
    else:
        yield ""
    yield Text(step.figure, style=style)
    yield Text(rounded_seconds(step.elapsed) if is_over else _whole_seconds(step.elapsed), style="dim")


def _whole_seconds(seconds: float) -> str:
    """Return the time in whole seconds, and nothing below one second."""
    return rounded_seconds(seconds) if seconds >= _A_MINUTE_S else f"{seconds:.0f} s" if seconds >= 1 else ""
