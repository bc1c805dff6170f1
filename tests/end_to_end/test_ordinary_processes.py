"""The process of a tool, and those that it starts, are as ordinary as programs expect."""

from __future__ import annotations

from typing import Final

import pytest

from sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("harmless")]

INTERRUPTS: Final = """
import os, signal, subprocess
def tool():
    child = subprocess.Popen(["sleep", "600"])
    child.send_signal(signal.SIGINT)
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return child.wait(), signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_an_interrupt_ends_what_a_tool_starts_and_is_raised_in_the_tool(sandbox: Sandbox) -> None:
    assert [sandbox.run(INTERRUPTS).value for _ in range(2)] == [[-2, True]] * 2
