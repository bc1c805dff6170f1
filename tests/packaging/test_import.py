"""`import sandbox` is cheap, and an ordinary call imports only what it needs."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib.util import find_spec
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
)
ROOMS_OF_SOME_CALLS: Final = (
    *("sandbox.backends.container", "sandbox.backends.container.docker", "sandbox.cli", "sandbox.client.stream"),
    *("sandbox.doctor", "sandbox.egress.proxy", "sandbox.engine.build_jobs", "sandbox.environments.builds"),
    *("sandbox.environments.bundles", "sandbox.environments.lock", "sandbox.environments.provider"),
    *("sandbox.environments.resolution", "sandbox.environments.store", "sandbox.images"),
    *("sandbox.outputs.artifacts.reading", "sandbox.testing", "sandbox.tools.check", "sandbox.tools.docstrings"),
    *("sandbox.tools.metadata", "sandbox.tools.schemas"),
)


def _seconds(statement: str) -> float:
    """Return the processor seconds of a statement; other processes of a busy machine do not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_importing_sandbox_takes_little_processor_time() -> None:
    rounds = [(_seconds("pass"), _seconds("import sandbox")) for _ in range(ROUNDS)]
    floor = min(bare for bare, _ in rounds)
    assert min(imported for _, imported in rounds) - floor <= ALLOWED_SECONDS * slowness()


def test_importing_sandbox_imports_nothing_heavy() -> None:
    script = f"import sys, sandbox; print(sorted(set(sys.modules) & {set(HEAVY)}))"
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.slow
def test_an_ordinary_call_imports_no_module_that_only_some_calls_need() -> None:
    script = f"{CALL}print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    modules = set(answer.stdout.split())
    assert modules & {*FOR_SOME_CALLS, *ROOMS_OF_SOME_CALLS} == set()


@pytest.mark.parametrize("room", ROOMS_OF_SOME_CALLS)
def test_a_room_of_some_calls_exists(room: str) -> None:
    assert find_spec(room) is not None
