"""Every Python program of the product starts isolated (-I), without site (-S), and writes no bytecode (-B)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.checkout import ROOT, python_files

PRODUCT: Final = python_files("sandbox", "runners")
FLAGS: Final = ["-I", "-S", "-B"]
_INTERPRETER: Final = re.compile(r"python3?\W*$|executable\W*$|\bPROGRAM$", re.IGNORECASE)
_OPTION: Final = re.compile(r"-[A-Za-z]+")
# The checker sees a start in each of these files, or the rule below would pass for want of anything to check.
STARTS_PYTHON: Final = (
    "runners/builder/unpack.py",
    "runners/python/box/warden.py",
    "sandbox/backends/container/runtime_probe.py",
    "sandbox/backends/container/runner_payload.py",
    "sandbox/backends/subprocess/box.py",
    "sandbox/environments/interpreters/search.py",
    "sandbox/environments/interpreters/skeleton.py",
    "sandbox/images/image_python.py",
)


def _commands(tree: ast.AST) -> Iterator[list[ast.expr]]:
    """Yield the parts after an interpreter in lists, tuples and arguments, each of which may be a command line."""
    for node in ast.walk(tree):
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        for number, part in enumerate(parts):
            if _is_interpreter(part) and _option(parts[number + 1 :]):
                yield parts[number + 1 :]


def _is_interpreter(part: ast.expr) -> bool:
    text = part.value if isinstance(part, ast.Constant) else ast.unparse(part)
    return isinstance(text, str) and bool(_INTERPRETER.search(text))


def _option(parts: list[ast.expr]) -> str | None:
    """Return the first part if that is an option."""
    first = parts[0] if parts else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and _OPTION.fullmatch(first.value):
        return first.value
    return None


def _strays(tree: ast.AST) -> list[int]:
    """Return the lines that start Python without its three options, in their order and before all others."""
    starts = ((parts[0].lineno, [_option(parts[number:]) for number in range(len(FLAGS))]) for parts in _commands(tree))
    return [line for line, found in starts if found != FLAGS]


@pytest.mark.slow
def test_the_product_starts_python_with_all_three_options() -> None:
    broken = [f"{file.relative_to(ROOT)}:{line}" for file in PRODUCT for line in _strays(ast.parse(file.read_text()))]
    assert not broken, "\n".join(broken)


def test_the_checker_sees_the_starts_of_the_product() -> None:
    assert [name for name in STARTS_PYTHON if not [*_commands(ast.parse((ROOT / name).read_text()))]] == []


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
def test_a_start_without_the_options_is_found(source: str) -> None:
    assert _strays(ast.parse(source))


def test_a_start_with_the_options_and_other_commands_are_accepted() -> None:
    source = "run(['sh', '-c', text]); run([uv, '--python', python]); run([python, '-I', '-S', '-B'])"
    assert _strays(ast.parse(source)) == []
