"""The pages lead to places that exist, and name everything that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.outcome import Status
from sandbox.policy import list_shipped
from tests.checkout import ROOT
from tests.docs.pages import FOLDER, all_pages

MAX_README_LINES: Final = 220
MAX_LINE: Final = 120
HOW_TO_POLICIES: Final = FOLDER / "how-to" / "policies.md"
_LINK: Final = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _dead_links(page: Path) -> Iterator[str]:
    for path, anchor in _LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield f"{page.relative_to(ROOT)} links to {path}#{anchor}"


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert [dead for page in all_pages() for dead in _dead_links(page)] == []


def test_the_readme_is_short_and_says_how_to_run_the_tests() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= MAX_README_LINES
    assert "python3 -m tests" in lines


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_fit_on_a_screen(page: Path) -> None:
    lines = page.read_text().splitlines()
    too_long = [
        number for number, line in enumerate(lines, 1) if len(line) > MAX_LINE and not line.startswith("python3")
    ]
    assert too_long == []


def test_the_readme_names_every_status() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [status for status in Status if f"`{status}`" not in readme] == []


def test_the_policies_page_has_a_row_for_every_policy() -> None:
    page = HOW_TO_POLICIES.read_text()
    assert [name for name in list_shipped() if f"| `{name}` |" not in page] == []


def test_the_index_of_the_documentation_names_every_page() -> None:
    index = (FOLDER / "README.md").read_text()
    pages = [page.relative_to(FOLDER) for page in sorted(FOLDER.rglob("*.md")) if page != FOLDER / "README.md"]
    assert [str(page) for page in pages if f"({page})" not in index] == []


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_the_maps_name_every_folder_of_the_engine(page: str) -> None:
    text = (ROOT / page).read_text()
    folders = [file.parent.name for file in sorted((ROOT / "sandbox").glob("*/__init__.py"))]
    assert [name for name in folders if f"  {name}/ " not in text] == []
