"""The pages of the documentation, and the fenced blocks in them.

A comment on the line before a block says how the tests treat it:

    <!-- file: NAME -->         the block is a file of that name, which later blocks of the page use
    <!-- output -->             the block is what the previous Python block prints
    <!-- not run: REASON -->    nothing runs the block here

Blocks without a comment run as their language says: `sh` line by line, `console` with the output that follows each
`$ `, and `python` as a script. A page that starts with `<!-- examples: containers -->` runs with the container tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.checkout import ROOT

FOLDER: Final = ROOT / "docs"
REFERENCE: Final = FOLDER / "reference"
_BLOCK: Final = re.compile(r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.S | re.M)
_NEEDS_CONTAINERS: Final = "<!-- examples: containers -->\n"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the comment before it, and the line of the page that it starts on."""

    language: str
    text: str
    mark: str
    line: int

    @property
    def file(self) -> str | None:
        """Return the name of the file that the block is, or None."""
        kind, _, name = self.mark.partition(": ")
        return name if kind == "file" else None

    @property
    def is_run(self) -> bool:
        return not self.mark


def written_pages() -> list[Path]:
    """List the pages that people write: the README and all of `docs` but the generated reference."""
    return [ROOT / "README.md", *(page for page in sorted(FOLDER.rglob("*.md")) if page.parent != REFERENCE)]


def all_pages() -> list[Path]:
    """List every page, those in the root of the repository among them."""
    return [*sorted(ROOT.glob("*.md")), *sorted(FOLDER.rglob("*.md"))]


def needs_containers(page: Path) -> bool:
    return page.read_text().startswith(_NEEDS_CONTAINERS)


def blocks(page: Path) -> list[Block]:
    """List the fenced blocks of a page in their order."""
    text = page.read_text()
    return [
        Block(found["language"], found["text"], found["mark"] or "", text.count("\n", 0, found.start("text")))
        for found in _BLOCK.finditer(text)
    ]
