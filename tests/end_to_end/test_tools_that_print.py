"""Output of tools is kept whole within the policy's bounds, counted honestly beyond them, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from sandbox import Finished, Printed, Sandbox, Status
from tests.checkout import ROOT
from tests.end_to_end.calls import serves

pytestmark = pytest.mark.slow

MIB: Final = 1 << 20
GIB: Final = 1 << 30


@pytest.mark.usefixtures("harmless")
def test_bytes_that_are_no_text_are_shown_as_such(sandbox: Sandbox) -> None:
    source = r"""
import os
def tool() -> None:
    os.write(1, b"\xff\xfe caf\xc3\xa9 \xc3"); os.write(1, b"\xa9 \x00 \xed\xa0\x80 \xf0\x9f\x92")
    os.write(2, bytes(range(256)))
"""
    outcome = sandbox.run(source)
    assert outcome.status is Status.OK
    assert outcome.stdout.text == "\ufffd\ufffd café é \0 \ufffd\ufffd\ufffd \ufffd"
    assert outcome.stderr.characters == 250  # \b, \r and the escape sequence count as a terminal shows them
    assert outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.usefixtures("harmless")
def test_a_single_line_of_100_megabytes_is_counted_to_its_last_character(sandbox: Sandbox) -> None:
    source = """
import os
def tool() -> int:
    os.write(1, b"first")
    for _ in range(100): os.write(1, b"x" * (1 << 20)) == 1 << 20 or os._exit(1)
    return 100
"""
    outcome = sandbox.run(source)
    assert (outcome.status, outcome.value) == (Status.OK, 100), outcome.error
    assert outcome.stdout.characters == 100 * MIB + 5
    assert outcome.stdout.truncated
    assert outcome.stdout.text.startswith("firstxxx")
    assert len(outcome.stdout.text) < 8_200


@pytest.mark.usefixtures("harmless")
def test_both_streams_of_a_call_come_whole(sandbox: Sandbox) -> None:
    source = """
import os, threading
def _say(number: int) -> None:
    for i in range(1000): os.write(number, b"%06d\\n" % i)
def tool() -> None:
    threads = [threading.Thread(target=_say, args=(n,)) for n in (1, 2)]
    [t.start() for t in threads]; [t.join() for t in threads]
"""
    outcome = sandbox.run(source)
    expected = "".join(f"{i:06}\n" for i in range(1000))
    assert (outcome.stdout.text, outcome.stderr.text) == (expected, expected)


@pytest.mark.usefixtures("harmless")
def test_a_reader_that_is_slow_gets_everything(sandbox: Sandbox) -> None:
    source = "def tool() -> None:\n    for i in range(5_000): print(i, 'x' * 90)\n"
    pieces = []
    for event in sandbox.stream(source):
        if isinstance(event, Finished):
            assert event.outcome.status is Status.OK
        elif isinstance(event, Printed):
            pieces.append(event.text)
            assert serves(sandbox) if len(pieces) % 100 == 0 else True
    assert "".join(pieces) == "".join(f"{i} {'x' * 90}\n" for i in range(5_000))


@pytest.mark.usefixtures("harmless")
def test_a_stream_that_is_left_early_ends_its_call(sandbox: Sandbox) -> None:
    source = "def tool() -> None:\n    while True: print('x' * 1000)\n"
    for _ in sandbox.stream(source):
        break


ENGINE: Final = """
import json, resource, sys
from sandbox import Policy, Sandbox
from sandbox.policy import Limits, Output, OverflowAction

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10

PRINTS = '''
import os
def tool(mebibytes: int) -> str:
    os.write(1, b"first\\\\n")
    piece = b"x" * ((1 << 16) - 1) + b"\\\\n"
    for _ in range(mebibytes * 16): os.write(1, piece) == 1 << 16 or os._exit(9)
    return "printed"
'''
limits = Limits(wall=200, cpu=200, output_rate=8 << 30)
policy = Policy(name="loud", description="x", limits=limits, output=Output(over=OverflowAction(sys.argv[1])))
with Sandbox(policy=policy) as engine:
    for _ in range(2):
        engine.run(PRINTS, {"mebibytes": 64})
    before = peak()
    outcome = engine.run(PRINTS, {"mebibytes": 1024})
    grown = peak() - before
    is_serving = engine.run(PRINTS, {"mebibytes": 0}).ok
stdout = outcome.stdout.model_dump()
stdout["text"] = stdout["text"][:20] + "|" + stdout["text"][-20:]
told = outcome.model_dump(include={"status", "limit_name", "value", "evidence", "usage"})
print(json.dumps({**told, "grown": grown, "is_serving": is_serving, "stdout": stdout}))
"""


def _print_a_gibibyte(over: str) -> dict[str, Any]:
    """In an engine of its own, whose memory is measured where it is."""
    command = [sys.executable, "-c", ENGINE, over]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=220)
    assert answer.returncode == 0, answer.stderr
    told: dict[str, Any] = json.loads(answer.stdout)
    return told


def test_printing_a_gibibyte_costs_the_engine_16_mebibytes() -> None:
    told = _print_a_gibibyte("truncate")
    assert (told["status"], told["value"]) == ("ok", "printed"), told
    assert told["stdout"]["characters"] == GIB + len("first\n")
    assert told["stdout"]["truncated"]
    assert told["stdout"]["text"].startswith("first\nxxx")
    assert told["grown"] <= 16 * MIB
    assert told["is_serving"]


def test_a_gibibyte_printed_under_a_policy_that_kills_ends_at_the_limit() -> None:
    told = _print_a_gibibyte("kill")
    assert (told["status"], told["limit_name"]) == ("limit", "output"), told
    assert told["evidence"]["limit"] == 64 * MIB
    assert 64 * MIB < told["stdout"]["characters"] < 80 * MIB
    assert told["stdout"]["text"].startswith("first\nxxx")
    assert told["grown"] <= 16 * MIB
    assert told["is_serving"]
