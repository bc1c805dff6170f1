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
CALL: Final = """
import sys
from sandbox import Sandbox
with Sandbox() as sandbox:
    assert sandbox.run("def add(a: int, b: int = 0) -> int:\\n    return a + b\\n", {"a": 2, "b": 3}).value == 5
"""
HEAVY: Final = ("docker", "fastapi", "redis", "pydantic", "typer", "rich", "asyncio", "uvicorn", "jinja2")
FOR_SOME_CALLS: Final = (
    *("docker", "docstring_parser", "fastapi", "filelock", "jsonschema_rs", "packaging", "psutil", "redis", "requests"),
    *("rich", "tenacity", "typer", "urllib3", "uv", "virtualenv", "http.client", "multiprocessing", "unittest", "xml"),
    *(
        f"sandbox.{name}"
        for name in (
            *("attacks", "catalog", "daemon", "images", "serving", "ssh", "streaming", "telemetry", "testing"),
            *("backends.container", "calls.workshop", "egress.porter", "outputs.artifacts.reading"),
            *("environments.builds", "environments.indexes", "environments.lock", "environments.provider"),
            *("environments.resolution", "environments.store"),
            *("tools.check", "tools.described", "tools.docstrings", "tools.metadata", "tools.schemas"),
        )
    ),
)


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


@pytest.mark.slow
def test_a_call_imports_nothing_that_only_some_calls_need() -> None:
    script = f"{CALL}print(sorted(set(sys.modules) & {set(FOR_SOME_CALLS)}))"
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
