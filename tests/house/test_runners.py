"""Code that enters a box runs under any Python since 3.8 and needs nothing but its standard library."""

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


def _imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the top module of every import that is not relative."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, (node.module or "").partition(".")[0]


def _siblings(file: Path) -> set[str]:
    """Return the runner's own modules, which are at the top level while the runner runs."""
    if file == AUTHORING:
        return set()
    runner = ROOT / "runners" / file.relative_to(ROOT / "runners").parts[0]
    return {path.stem for path in runner.iterdir()}


def test_runners_are_written_in_the_oldest_grammar() -> None:
    broken = [str(error) for file in ENTERS_A_BOX if (error := _syntax_error(file))]
    assert not broken, "\n".join(broken)


def _syntax_error(file: Path) -> str | None:
    try:
        ast.parse(file.read_text(), filename=str(file), feature_version=OLDEST_GRAMMAR)
    except SyntaxError as error:
        return f"{file.relative_to(ROOT)}:{error.lineno}: {error.msg}"
    return None


@pytest.mark.slow
def test_runners_import_the_standard_library_only() -> None:
    broken = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in ENTERS_A_BOX
        for line, name in _imported(ast.parse(file.read_text()))
        if name not in sys.stdlib_module_names | _siblings(file)
    ]
    assert not broken, "\n".join(broken)


def test_there_is_a_runner() -> None:
    assert (ROOT / "runners" / "python" / "__main__.py").is_file()
