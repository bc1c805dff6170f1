"""What a runner loads: every process of a box that waits holds it, so it is what calls need and nothing else."""

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
    """What these have imported, each for itself and with each other."""
    program = f"import sys; sys.path.insert(0, {str(RUNNER)!r}); import {', '.join(modules)}; loaded = [*sys.modules]"
    command = [python, "-I", "-S", "-B", "-c", f"{program}; {LOADED}"]
    return set(json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout))


@pytest.mark.parametrize("version", interpreters())
def test_what_waits_outside_of_a_box_has_not_loaded_what_is_used_inside(version: str) -> None:
    loaded = loaded_by(interpreters()[version], "box.start", "box.warden")
    assert loaded & (HEAVY | OF_CALLS) == set()


@pytest.mark.parametrize("version", interpreters())
def test_what_serves_calls_has_not_loaded_what_only_some_of_them_need(version: str) -> None:
    loaded = loaded_by(interpreters()[version], "box.start", "zygote.boot")
    assert (loaded & HEAVY, OF_CALLS - loaded) == (set(), set())
