"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT, python_files, tracked_files

PRODUCT: Final = python_files("sandbox", "runners")
MOST_LINES: Final = 400
# Names that say nothing about what is behind them.
EMPTY_WORDS: Final = {"util", "utils", "misc", "common"}
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
# Joined here so that this file keeps its own rule.
INDEX_HOSTS: Final = ("pypi" + ".org", "pythonhosted" + ".org", "registry.npmjs" + ".org")


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


def _classes(file: Path) -> Iterator[str]:
    return (node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef))


def _documents() -> Iterator[tuple[str, str]]:
    for name in tracked_files():
        try:
            yield name, (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("file", PRODUCT, ids=_name)
def test_names_say_what_is_behind_them(file: Path) -> None:
    names = [*file.relative_to(ROOT).with_suffix("").parts, *_classes(file)]
    assert {name for name in names if _words(name) & EMPTY_WORDS} == set()


@pytest.mark.parametrize("file", PRODUCT, ids=_name)
def test_no_file_is_too_long_to_read(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("file", PRODUCT, ids=_name)
def test_every_module_says_what_it_is_for(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text()))


@pytest.mark.parametrize("file", python_files("sandbox"), ids=_name)
def test_every_folder_of_the_engine_is_a_package(file: Path) -> None:
    assert (file.parent / "__init__.py").is_file()


def test_every_policy_and_image_says_what_it_is_for() -> None:
    described = [*ROOT.glob("policies/*.toml"), *ROOT.glob("images/*/image.toml")]
    assert described
    assert [_name(file) for file in described if not _description(file)] == []


def _description(file: Path) -> str:
    return str(tomllib.loads(file.read_text()).get("description", "")).strip()


@pytest.mark.slow
def test_the_public_names_are_those_listed() -> None:
    script = (
        "import sandbox; names = {name: getattr(sandbox, name) for name in sandbox.__all__};"
        "assert len(names) == len(sandbox.__all__), 'a name is listed twice';"
        "assert set(dir(sandbox)) == set(names), set(dir(sandbox)) ^ set(names)"
    )
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_why_a_public_name_cannot_be_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("from sandbox import Sandbox\n")
    answer = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"ImportError: Sandbox cannot be imported: module 'json' has no attribute", answer.stderr)


def test_the_type_checker_sees_the_names_that_are_listed() -> None:
    tree = ast.parse((ROOT / "sandbox" / "__init__.py").read_text())
    listed = next(ast.literal_eval(_value(node)) for node in tree.body if "__all__" in _targets(node))
    assert set(_public_bindings(tree)) == set(listed)


def _value(node: ast.stmt) -> ast.expr:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    assert node.value is not None
    return node.value


def _targets(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _public_bindings(tree: ast.Module) -> Iterator[str]:
    """What the module defines or takes from elsewhere in the engine, for the type checker's eyes only or for all."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sandbox."):
            yield from (alias.asname or alias.name for alias in node.names)
    for node in tree.body:
        names = {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else _targets(node)
        yield from (name for name in names if not name.startswith("_"))


def test_ci_runs_what_the_readme_says() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert re.search(r"^exec python3 -m tests\b", script.read_text(), flags=re.MULTILINE)


def test_no_file_knows_where_it_was_written_or_where_packages_come_from() -> None:
    checkout = re.compile(re.escape(str(ROOT)) + r"(?![\w-])")
    found = [name for name, text in _documents() if checkout.search(text) or any(host in text for host in INDEX_HOSTS)]
    assert found == []
