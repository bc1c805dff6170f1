"""A signal ends a command wherever in the program it arrives."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
import signal, time, weakref
from sandbox.cli.app import Interrupts

class Last:
    def __del__(self):
        ask()

def ask(*_):
    if REMOVED:
        signal.raise_signal(signal.SIGTERM)

REMOVED = []
interrupts = Interrupts()
object_, other = Last(), Last()
noted = weakref.ref(other, ask)
try:
    REMOVED.append(True)
    del PLACE
    time.sleep(60)
    print("not heard")
except KeyboardInterrupt:
    REMOVED.clear()
    print("heard", interrupts.came)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["object_", "other"])
def test_a_signal_during_the_removal_of_an_object_is_not_lost(place: str) -> None:
    command = [sys.executable, "-c", PROGRAM.replace("PLACE", place)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("heard True\n", "", 0)
