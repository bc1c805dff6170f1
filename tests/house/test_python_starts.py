"""Every Python program of ours starts isolated (-I), without site (-S), and writes no bytecode (-B)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT, python_files

PRODUCT: Final = python_files("sandbox", "runners")
FLAGS: Final = ["-I", "-S", "-B"]
_INTERPRETER: Final = re.compile(r"python3?\W*$|executable\W*$|\bPROGRAM$", re.IGNORECASE)
_OPTION: Final = re.compile(r"-[A-Za-z]+")


def _commands(tree: ast.AST) -> Iterator[list[ast.expr]]:
    """Whatever may be a command line: lists, tuples and arguments, each with all that begins at an interpreter."""
    for node in ast.walk(tree):
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        for number, part in enumerate(parts):
            if _is_interpreter(part) and _option(parts[number + 1 :]):
                yield parts[number + 1 :]


def _is_interpreter(part: ast.expr) -> bool:
    text = part.value if isinstance(part, ast.Constant) else ast.unparse(part)
    return isinstance(text, str) and bool(_INTERPRETER.search(text))


def _option(parts: list[ast.expr]) -> str | None:
    """What the first of these says, if that is an option."""
    first = parts[0] if parts else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and _OPTION.fullmatch(first.value):
        return first.value
    return None


def _strays(tree: ast.AST) -> list[str]:
    """The starts of Python without its three options, in their order and before all others."""
    starts = ([_option(parts[number:]) for number in range(len(FLAGS))] for parts in _commands(tree))
    return [str(found) for found in starts if found != FLAGS]


@pytest.mark.parametrize("file", PRODUCT, ids=lambda file: str(file.relative_to(ROOT)))
def test_python_is_started_with_nothing_of_the_user(file: Path) -> None:
    assert _strays(ast.parse(file.read_text())) == []


@pytest.mark.parametrize(
    "name",
    [
        "runners/builder/unpack.py",
        "runners/python/box/warden.py",
        "sandbox/backends/container/limit_probes.py",
        "sandbox/backends/container/runner_payload.py",
        "sandbox/backends/subprocess/box.py",
        "sandbox/environments/interpreters/search.py",
        "sandbox/environments/interpreters/skeleton.py",
        "sandbox/images/image_python.py",
    ],
)
def test_there_is_a_start_to_look_at(name: str) -> None:
    assert [*_commands(ast.parse((ROOT / name).read_text()))]


@pytest.mark.parametrize(
    "source",
    [
        "run([sys.executable, '-c', text])",
        "run([python, '-I', '-S', '-c', text])",
        "run(PROGRAM, '-I', '-B', '-S')",
        "start(entrypoint=['python3', '-I'])",
        "run(['/usr/bin/python3', '-m', 'x'])",
        "os.execv(sys.executable, [sys.executable, '-S'])",
        "run([str(host.python), '-I', '-B'])",
    ],
)
def test_a_start_without_them_is_found(source: str) -> None:
    assert _strays(ast.parse(source))


def test_other_commands_are_none() -> None:
    assert (
        _strays(ast.parse("run(['sh', '-c', text]); run([uv, '--python', python]); run([python, '-I', '-S', '-B'])"))
        == []
    )
