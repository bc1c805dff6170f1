"""Several engines on one machine do not disturb each other."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from sandbox import Sandbox
from tests.checkout import ROOT
from tests.end_to_end.calls import PATIENCE_S, TRIVIAL, serves, under_way

A_WHILE: Final = """
import time
def tool() -> str:
    print("ready")
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        time.sleep(0.01)
    return "undisturbed"
"""


@pytest.mark.slow
def test_an_engine_that_starts_leaves_another_processs_boxes_alone() -> None:
    script = (
        f"from sandbox import Sandbox\nwith Sandbox() as engine: print(engine.run({TRIVIAL!r}, dict(a=1, b=2)).value)"
    )
    with Sandbox() as engine, under_way(engine, A_WHILE) as outcome:
        other = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
        assert other.stdout.strip() == "3"
        assert outcome.result(PATIENCE_S).value == "undisturbed"


@pytest.mark.slow
def test_two_engines_of_one_process_close_apart() -> None:
    with Sandbox() as first, under_way(first, A_WHILE) as outcome:
        with Sandbox() as second:
            assert serves(second)
        assert outcome.result(PATIENCE_S).value == "undisturbed"
