"""`import sandbox` costs a program next to nothing."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Final

import pytest

from tests.processor_time import slowness

ROUNDS: Final = 7
ALLOWED_SECONDS: Final = 0.150
HEAVY: Final = ("docker", "fastapi", "redis", "pydantic", "typer", "rich", "asyncio", "uvicorn", "jinja2")


def _seconds(statement: str) -> float:
    """Of processor time: that others on the machine take theirs is not the program's affair."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_importing_sandbox_takes_no_time_to_speak_of() -> None:
    rounds = [(_seconds("pass"), _seconds("import sandbox")) for _ in range(ROUNDS)]
    floor = min(bare for bare, _ in rounds)
    assert min(imported for _, imported in rounds) - floor <= ALLOWED_SECONDS * slowness()


def test_importing_sandbox_imports_nothing_heavy() -> None:
    script = f"import sys, sandbox; print(sorted(set(sys.modules) & {set(HEAVY)}))"
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
