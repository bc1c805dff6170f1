"""The linters are content: every file is formatted, checked and typed, and imports only lower layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT, python_files

BIN: Final = Path(sys.executable).parent
# The oldest Python whose library the type checker still knows; the runners' grammar is checked in test_runners.py.
OLDEST_TYPED_PYTHON: Final = "3.10"

pytestmark = pytest.mark.slow


def _assert_content(*command: str, within: Path = ROOT) -> None:
    answer = subprocess.run(command, cwd=within, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}{answer.stderr}"


def test_every_file_is_formatted() -> None:
    _assert_content(sys.executable, "-m", "ruff", "format", "--check", "--quiet", "--diff", ".")


def test_ruff_finds_nothing() -> None:
    _assert_content(sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", ".")


@pytest.mark.timeout(300)
def test_every_type_holds() -> None:
    _assert_content(sys.executable, "-m", "mypy", "--no-error-summary")


def _runners() -> list[Path]:
    return sorted({ROOT / "runners" / path.relative_to(ROOT / "runners").parts[0] for path in python_files("runners")})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("runner", _runners(), ids=lambda runner: runner.name)
def test_every_type_of_a_runner_holds(runner: Path) -> None:
    files = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache" / "runners")]
    settings = ["--python-version", OLDEST_TYPED_PYTHON, "--no-error-summary"]
    _assert_content(sys.executable, "-m", "mypy", *files, *settings, ".", within=runner)


def test_imports_go_down_only() -> None:
    _assert_content(str(BIN / "lint-imports"), "--no-logo", "--no-cache")
