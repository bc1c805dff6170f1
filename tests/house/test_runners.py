"""What enters a box runs under any Python since 3.8 and needs nothing but its standard library."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT, python_files

OLDEST_GRAMMAR: Final = (3, 8)
AUTHORING: Final = ROOT / "sandbox" / "authoring.py"
ENTERS_A_BOX: Final = [*python_files("runners"), *([AUTHORING] if AUTHORING.exists() else [])]


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def _siblings(file: Path) -> set[str]:
    """The runner's own modules, which are at the top level while it runs."""
    if file == AUTHORING:
        return set()
    runner = ROOT / "runners" / file.relative_to(ROOT / "runners").parts[0]
    return {path.stem for path in runner.iterdir()}


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", ENTERS_A_BOX, ids=_name)
def test_what_enters_a_box_has_the_oldest_grammar(file: Path) -> None:
    ast.parse(file.read_text(), filename=str(file), feature_version=OLDEST_GRAMMAR)


@pytest.mark.parametrize("file", ENTERS_A_BOX, ids=_name)
def test_what_enters_a_box_imports_the_standard_library_only(file: Path) -> None:
    imported = set(_imported(ast.parse(file.read_text())))
    assert imported - sys.stdlib_module_names - _siblings(file) == set()


def test_there_is_a_runner() -> None:
    assert (ROOT / "runners" / "python" / "__main__.py").is_file()
