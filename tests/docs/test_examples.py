"""Every example of the README and of the documentation does what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.docs.examples import ExampleFailed, PageRun
from tests.docs.pages import blocks, needs_containers, written_pages
from tests.end_to_end.packages import machine_with, publish, publish_installed
from tests.indexes import LocalIndex

PAGES: Final = written_pages()
WITHOUT_CONTAINERS: Final = [page for page in PAGES if not needs_containers(page)]
LANGUAGES: Final = {"sh", "console", "python", "toml", "text"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give all pages one store, and an index that has the packages of the examples."""
    wheels = tmp_path_factory.mktemp("wheels")
    publish_installed(wheels, "packaging")
    publish(wheels, "pandas", "2.3.0")
    publish(wheels, "tabulate", "0.9.0")
    settings = tmp_path_factory.mktemp("settings")
    with LocalIndex(wheels) as index, machine_with(index.url):
        yield {"SANDBOX_STORE": str(tmp_path_factory.mktemp("store")), "XDG_CONFIG_HOME": str(settings)}


@pytest.mark.parametrize("page", WITHOUT_CONTAINERS, ids=_name)
def test_the_examples_of_a_page_run(page: Path, variables: dict[str, str], tmp_path: Path) -> None:
    own = {**variables, "SANDBOX_ARTIFACTS": str(tmp_path / ".artifacts")}
    PageRun(page, tmp_path, own).run()


@pytest.mark.parametrize("example", ["```sh\nfalse\n```", "```console\n$ echo one\ntwo\n```", "```python\n1 / 0\n```"])
def test_an_example_that_does_not_hold_is_reported(example: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{example}\n")
    with pytest.raises(ExampleFailed, match=r"page\.md:"):
        PageRun(page, tmp_path, {}).run()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_is_an_example_or_says_why_not(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"line {block.line}: unknown language"
        assert block.language != "toml" or block.file, f"line {block.line}: a TOML block needs a file name"
        assert re.fullmatch("|file: .+|output|not run: .{10,}", block.mark), f"line {block.line}: unknown comment"


def test_python_examples_are_well_typed(tmp_path: Path) -> None:
    examples = [block.text for page in PAGES for block in blocks(page) if block.language == "python" and block.is_run]
    assert len(examples) > 5
    for number, example in enumerate(examples):
        (tmp_path / f"example_{number}.py").write_text(example)
    (tmp_path / "wrong.py").write_text("from sandbox import Sandbox\n\nSandbox().run('', polcy='strict')\n")
    command = (sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path, tmp_path)
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(r'wrong.py:3: error: Unexpected keyword argument "polcy"', answer.stdout), answer.stdout
    assert answer.stdout.count(" error: ") == 1, answer.stdout
