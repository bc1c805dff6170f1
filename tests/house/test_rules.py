"""Rules of the house that no linter knows; each failure lists every file and line that breaks the rule."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT, python_files, tracked_files

PRODUCT: Final = python_files("sandbox", "runners")
ALL_PYTHON: Final = python_files("sandbox", "runners", "tests", "benchmarks", "examples")
MAX_LINES: Final = 400
MAX_MODULES: Final = 16
# Folders with a bound of their own.
MAX_MODULES_OF: Final = {"sandbox": 12}
# Names of modules and classes with these words say nothing.
EMPTY_WORDS: Final = {"util", "utils", "misc", "common"}
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
# Joined here so that this file keeps its own rule.
INDEX_HOSTS: Final = ("pypi" + ".org", "pythonhosted" + ".org", "registry.npmjs" + ".org")

# Classes of one meaning on both sides of the channel: once in runners/, once in sandbox/.
BOTH_SIDES: Final = {"DirectPipes", "FrameReader", "IsolationFault", "Misfit", "SocketChannel"}

# Offenders that existed before the rules. Entries may only be removed; an entry that is no longer needed fails.
LONG_FILES: Final = {
    "tests/container/test_environment_images.py",
    "tests/container/test_faults.py",
    "tests/end_to_end/test_environments_run.py",
    "tests/escape/hostile_packages.py",
    "tests/escape/test_builds.py",
    "tests/escape/test_containers.py",
    "tests/escape/test_egress.py",
    "tests/escape/test_hostile_packages.py",
    "tests/unit/engine/test_verdict.py",
    "tests/unit/environments/test_bundle.py",
    "tests/unit/environments/test_interpreters.py",
    "tests/unit/environments/test_requirements.py",
    "tests/unit/environments/test_store.py",
    "tests/unit/environments/test_trees.py",
    "tests/unit/pool/test_lending.py",
    "tests/unit/protocol/test_conversation.py",
    "tests/unit/protocol/test_lines.py",
}
CROWDED_FOLDERS: Final = set[str]()
AMBIGUOUS_CLASSES: Final = {
    "Isolation",
    "Layer",
    "Malformed",
    "Progress",
    "PruneReport",
    "Started",
    "Verdict",
    "_Lines",
}


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _classes(file: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef))


def _documents() -> Iterator[tuple[str, str]]:
    for name in tracked_files():
        try:
            yield name, (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue


def _assert_none(broken: Iterable[str], rule: str) -> None:
    found = list(broken)
    assert not found, "\n".join([rule, *found])


def _assert_allowed(offenders: dict[str, str], allowed: set[str], rule: str) -> None:
    """Fail for offenders that are not allowed, and for allowances that nothing needs."""
    _assert_none((text for name, text in offenders.items() if name not in allowed), rule)
    _assert_none(sorted(allowed - offenders.keys()), f"{rule} These keep the rule now; remove their entries:")


@pytest.mark.slow
def test_modules_and_classes_have_telling_names() -> None:
    modules = ((f"{_name(file)}:1", part) for file in PRODUCT for part in file.relative_to(ROOT).with_suffix("").parts)
    classes = ((f"{_name(file)}:{node.lineno}", node.name) for file in PRODUCT for node in _classes(file))
    broken = (f"{place}: {name}" for place, name in (*modules, *classes) if _words(name) & EMPTY_WORDS)
    _assert_none(broken, f"Names have no words of {sorted(EMPTY_WORDS)}.")


def test_files_are_short() -> None:
    lengths = {_name(file): len(file.read_text().splitlines()) for file in ALL_PYTHON}
    long = {name: f"{name}:{MAX_LINES}: {lines} lines" for name, lines in lengths.items() if lines > MAX_LINES}
    _assert_allowed(long, LONG_FILES, f"A file has at most {MAX_LINES} lines.")


def test_folders_hold_few_modules() -> None:
    folders = defaultdict[str, list[str]](list)
    for file in PRODUCT:
        folders[_name(file.parent)].append(file.name)
    bounds = {folder: MAX_MODULES_OF.get(folder, MAX_MODULES) for folder in folders}
    crowded = {
        folder: f"{folder}: {len(modules)} modules, at most {bounds[folder]}: {' '.join(modules)}"
        for folder, modules in folders.items()
        if len(modules) > bounds[folder]
    }
    _assert_allowed(crowded, CROWDED_FOLDERS, "A folder holds few modules, its subfolders not counted.")


@pytest.mark.slow
def test_a_class_name_has_one_meaning() -> None:
    places = defaultdict[str, list[str]](list)
    for file in PRODUCT:
        for node in _classes(file):
            places[node.name].append(f"{_name(file)}:{node.lineno}")
    repeated = {
        name: f"{name}: {' '.join(where)}"
        for name, where in places.items()
        if len(where) > 1 and not (name in BOTH_SIDES and sorted(_sides(where)) == ["runners", "sandbox"])
    }
    _assert_allowed(repeated, AMBIGUOUS_CLASSES, "A class name has one meaning in sandbox/ and runners/.")


def _sides(places: list[str]) -> list[str]:
    return [place.partition("/")[0] for place in places]


@pytest.mark.slow
def test_every_module_has_a_docstring() -> None:
    _assert_none((f"{_name(file)}:1" for file in PRODUCT if not ast.get_docstring(_tree(file))), "No docstring:")


def test_every_folder_of_the_engine_is_a_package() -> None:
    folders = {file.parent for file in python_files("sandbox")}
    _assert_none(sorted(_name(each) for each in folders if not (each / "__init__.py").is_file()), "No __init__.py:")


def test_every_policy_and_image_has_a_description() -> None:
    described = [*ROOT.glob("policies/*.toml"), *ROOT.glob("images/*/image.toml")]
    assert described
    _assert_none((_name(file) for file in described if not _description(file)), "No description:")


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
def test_a_failing_import_of_a_public_name_names_its_cause(tmp_path: Path) -> None:
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
    tree = _tree(ROOT / "sandbox" / "__init__.py")
    (checked,) = (node.body for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checked if isinstance(node, ast.ImportFrom)]
    homes = next(node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.value)
    assert {alias.asname: node.module for node in imports for alias in node.names} == ast.literal_eval(homes)


def test_ci_runs_the_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert re.search(r"^exec python3 -m tests\b", script.read_text(), flags=re.MULTILINE)


def test_no_file_names_its_checkout_or_a_package_index() -> None:
    checkout = re.compile(re.escape(str(ROOT)) + r"(?![\w-])")
    lines = ((name, number, line) for name, text in _documents() for number, line in enumerate(text.split("\n"), 1))
    broken = (
        f"{name}:{number}"
        for name, number, line in lines
        if checkout.search(line) or any(host in line for host in INDEX_HOSTS)
    )
    _assert_none(broken, "A page of the project names neither its checkout nor a package index.")
