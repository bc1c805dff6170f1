"""Every page is written in plain English, and the checker finds what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT, python_files, tracked_files
from tests.house.prose import Finding, check_file, main

MAX_SHOWN: Final = 200


def _pages() -> list[str]:
    python = python_files("sandbox", "runners", "tests", "benchmarks", "examples")
    documents = [name for name in tracked_files() if name.endswith((".md", ".toml"))]
    return sorted({*(str(file.relative_to(ROOT)) for file in python), *documents})


@pytest.mark.slow
def test_every_page_is_written_in_plain_english() -> None:
    broken = [f"{page}:{finding.line}: {finding.problem}" for page in _pages() for finding in check_file(ROOT / page)]
    assert not broken, "\n".join([f"{len(broken)} findings", *broken[:MAX_SHOWN]])


PYTHON: Final = {
    "a docstring": ('def f() -> None:\n    """Return what nobody knows."""\n', 2, "nobody"),
    "a docstring of many lines": ('"""Explain.\n\nThe caller is\ntold so.\n"""\n', 4, "told"),
    "a phrase over two lines": ('"""Explain.\n\nThe engine makes so\nmany boxes.\n"""\n', 3, "many"),
    "a pronoun that starts a docstring": ('"""What the box says."""\n', 1, "pronoun"),
    "a pronoun that starts the docstring of a class": ('class A:\n    """Its own lock."""\n', 2, "pronoun"),
    "a docstring of an attribute": ('limit: int\n"""Those of the call."""\n', 2, "pronoun"),
    "a later sentence of a docstring": ('"""Explain.\n\nBoxes end. They are reused.\n"""\n', 3, "They"),
    "a list item of a docstring": ('"""Explain.\n\n- One for each call.\n"""\n', 3, "One"),
    "a comment": ("x = 1  # beside the other\n", 1, "beside"),
    "the start of a comment": ("x = 1  # of the box\n", 1, "of"),
    "a comment of many lines": ("# The box ends.\n# These are its\n# files.\n", 2, "These"),
    "a comment after a directive": ("x = 1  # noqa: F401 # told by the box\n", 1, "told"),
    "a message": ("raise ValueError('the box told a lie')\n", 1, "told"),
    "a message of many lines": ("f(\n    'the box told '\n    'nothing'\n)\n", 2, "told"),
    "a message with a value in it": ("f(f'{name} is mended')\n", 1, "mended"),
    "none as a word": ("f('a version that is none')\n", 1, "none"),
    "a function name": ("def _so_many() -> None: ...\n", 1, "many"),
    "a long test name": (f"def test_{'a' * 66}() -> None: ...\n", 1, "71 characters"),
    "a file that is not Python": ("def (\n", 1, "cannot be read"),
}
CLEAN_PYTHON: Final = {
    "plain English": '"""Return the lock for these requirements."""\n',
    "a user name": "user = 'nobody'\n",
    "an identifier": "told = nobody.beside\n",
    "words in backticks": '"""Run as the user `nobody`, or ``whoever``."""\n',
    "words in quotes": "x = 1  # the message says \"told so\" and 'somebody'\n",
    "the value None": "f('the policy is None')\n",
    "a tool's source": "SOURCE = '''\ndef told():\n    raise ValueError('nobody told me')\n'''\n",
    "a tool's source with a value in it": "f(f'x = {value}  # told so')\n",
    "a longer word": '"""Recommend besides: every Ofsted page is reachable for everyone."""\n',
    "a hyphenated word": '"""Explain.\n\nBoxes end. One-time keys follow.\n"""\n',
    "an excuse at the end": "x = 'told you so'  # prose: this user said that\n",
    "an excuse before": "# prose: this user said that\nx = 'told you so'\n",
    "an excuse after many lines": "f(\n    'told '\n    'you so'  # prose: this user said that\n)\n",
    "a long name that is no test": f"def check_{'a' * 80}() -> None: ...\n",
}
MARKDOWN: Final = {
    "a paragraph": ("# Title\n\nA sentence\nis told here.\n", 4, "told"),
    "the start of a sentence": ("# Title\n\nA box. It ends.\n", 3, "It"),
    "a list item": ("- Boxes\n- What they do\n", 2, "What"),
    "a heading": ("# For ever\n", 1, "ever"),  # prose: the checked text
    "a cell": ("| a | nobody |\n", 1, "nobody"),
    "a sentence in a cell": ("| a | It ends. |\n", 1, "It"),
}
CLEAN_MARKDOWN: Final = {
    "code": "Run it:\n\n```python\ntold = 1  # It is told\n```\n\nThen `nobody`.\n",
    "a heading that is no sentence": "## What it costs\n",
    "a phrase in a cell": "| One box | Of each kind |\n",
    "an excuse": "<!-- prose: a quotation -->\nNobody knows.\n",
    "a link": "See [the page](https://host.example/told) for more.\n",  # prose: the checked text
}
TOML: Final = {
    "a comment": ('a = "x" # told\n', 1, "told"),  # prose: the checked text
    "a comment of many lines": ("# The box ends.\n# These are its files.\n", 2, "These"),
    "a description": ('name = "x"\ndescription = "For nobody."\n', 2, "nobody"),
}
CLEAN_TOML: Final = {
    "a value": 'a = "told # nobody"\n',
    "a source": "source = '''\n# It is told\n'''\n",
    "an excuse": "user = 1 # nobody # prose: the name of the user\n",
}
FOUND: Final = [
    *(pytest.param("page.py", *case, id=f"Python: {name}") for name, case in PYTHON.items()),
    *(pytest.param("page.md", *case, id=f"Markdown: {name}") for name, case in MARKDOWN.items()),
    *(pytest.param("page.toml", *case, id=f"TOML: {name}") for name, case in TOML.items()),
]
ACCEPTED: Final = [
    *(pytest.param("page.py", source, id=f"Python: {name}") for name, source in CLEAN_PYTHON.items()),
    *(pytest.param("page.md", source, id=f"Markdown: {name}") for name, source in CLEAN_MARKDOWN.items()),
    *(pytest.param("page.toml", source, id=f"TOML: {name}") for name, source in CLEAN_TOML.items()),
]


@pytest.mark.parametrize(("name", "source", "line", "problem"), FOUND)
def test_the_checker_finds(name: str, source: str, line: int, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(source)
    (finding,) = check_file(tmp_path / name)
    assert finding.line == line
    assert problem in finding.problem


@pytest.mark.parametrize(("name", "source"), ACCEPTED)
def test_the_checker_accepts(name: str, source: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(source)
    assert check_file(tmp_path / name) == []


def test_the_program_prints_findings_of_folders_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "page.py").write_text("x = 1  # told\n")
    (tmp_path / "page.py").write_text("x = 1  # told\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f'{tmp_path}/page.py:1: comment has the refused words "told"\n'
    (tmp_path / "page.py").write_text("x = 1\n")
    assert main([str(tmp_path), str(tmp_path / "page.py")]) == 0


def test_findings_are_sorted_by_line() -> None:
    assert sorted([Finding(2, "a"), Finding(1, "b")]) == [Finding(1, "b"), Finding(2, "a")]
