"""The runner loads only modules that calls need, because every waiting process of a box holds them."""

from __future__ import annotations

import json
import subprocess
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.runners.interpreters import interpreters

RUNNER: Final = ROOT / "runners" / "python"
HEAVY: Final = {"collections", "enum", "functools", "json", "re", "signal", "traceback", "typing"}
OF_CALLS: Final = {"call.call", "call.guard", "zygote.boot", "call.tool_process", "call.values", "zygote.zygote"}
LOADED: Final = "import json; print(json.dumps(loaded))"


def loaded_by(python: str, *modules: str) -> set[str]:
    """Return the modules that importing these loads."""
    program = f"import sys; sys.path.insert(0, {str(RUNNER)!r}); import {', '.join(modules)}; loaded = [*sys.modules]"
    command = [python, "-I", "-S", "-B", "-c", f"{program}; {LOADED}"]
    return set(json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout))


@pytest.mark.parametrize("version", interpreters())
def test_a_warden_loads_nothing_that_only_calls_need(version: str) -> None:
    loaded = loaded_by(interpreters()[version], "box.start", "box.warden")
    assert loaded & (HEAVY | OF_CALLS) == set()


@pytest.mark.parametrize("version", interpreters())
def test_a_zygote_loads_nothing_that_only_some_calls_need(version: str) -> None:
    loaded = loaded_by(interpreters()[version], "box.start", "zygote.boot")
    assert (loaded & HEAVY, OF_CALLS - loaded) == (set(), set())
