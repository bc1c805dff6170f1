"""The same attacks on an engine without root: in a process of its own, as a user that owns nothing here.

Without root a box runs as the engine's own user, and the kernel's control groups are usually out of reach, so other
walls than root's have to hold.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.unprivileged import AS_NOBODY

_SCRIPT: Final = """
import json, sys
sys.path[1:1] = json.loads(sys.argv[2])
from sandbox import Sandbox
calls = json.loads(sys.argv[1])
with Sandbox() as engine:
    outcomes = [engine.run(call.pop("source"), call.pop("args"), **call) for call in calls]
print(json.dumps([json.loads(outcome.to_json()) for outcome in outcomes]))
"""
_PATIENCE_S: Final = 220


def run_without_root(python: Path, source: str, args: Mapping[str, object] | None = None, **fields: object) -> Any:
    """Return the outcome of a call to an engine without root, as its JSON document."""
    call = {"source": source, "args": dict(args or {}), **fields}
    return run_all_without_root(python, [call])[0]


def run_all_without_root(python: Path, calls: list[dict[str, object]], *, packages: Path | None = None) -> list[Any]:
    """The outcomes of several calls, one after the other; `packages` is where `sandbox` is, if `python` has it not."""
    places = [str(packages)] if packages else []
    answer = subprocess.run(
        [python, "-I", "-c", _SCRIPT, json.dumps(calls), json.dumps(places)],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
        **AS_NOBODY,
    )
    assert answer.returncode == 0, answer.stderr
    found: list[Any] = json.loads(answer.stdout)
    return found
