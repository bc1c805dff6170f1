"""Tools that speak where only the runner may: nothing they write anywhere is taken for what happened."""

from __future__ import annotations

import json
import struct
import time
from typing import Final

import pytest

from sandbox import Sandbox, Status

pytestmark = [pytest.mark.usefixtures("harmless"), pytest.mark.slow]


def _message(**fields: object) -> bytes:
    payload = json.dumps(fields).encode()
    return struct.pack(">IB", len(payload) + 1, 1) + payload


def _chunk(call: int, stream: int, data: bytes) -> bytes:
    return struct.pack(">IBIB", len(data) + 6, 2, call, stream) + data


def _reply(**fields: object) -> bytes:
    payload = json.dumps(fields).encode()
    return struct.pack(">I", len(payload)) + payload


WON: Final = _reply(kind="value", value="forged", warnings=[])
END: Final = {"exit_code": 0, "signal": None, "cpu_s": 0.0, "max_rss": 0, "bytes_free": 1, "inodes_free": 1}
WALLS: Final = _reply(walls={}, cpu_s=0.0)
FORGERIES: Final = {
    "a reply": WON,
    "a reply in a chunk": b"".join(_chunk(call, 3, WON) for call in range(50)),
    "the end of every call": b"".join(_message(type="ended", id=call, killed_by=None, **END) for call in range(50)),
    "a call that started": b"".join(_message(type="started", id=call, slot=0, ahead=False) for call in range(50)),
    "another hello": _message(type="hello", protocol=1, python="", implementation="", failed={}, refused={}),
    "the guard's last record": _reply(**END),
    "the guard's record of its walls": WALLS,
    "a kill of every neighbour": b"".join(_message(type="kill", id=call) for call in range(50)),
    "an endless frame": struct.pack(">IB", 0xFFFFFFFF, 1) + b"x" * 4096,
    "noise": bytes(range(256)) * 64,
}

WRITES_EVERYWHERE: Final = """
import os, socket
def tool(data: str, ends: str) -> str:
    print("before", flush=True)
    said = bytes.fromhex(data)
    for number in [n for n in range(1024) if n not in (1, 2)]:
        try:
            os.set_blocking(number, False)
        except OSError:
            continue
        for _ in range(3):
            try:
                os.write(number, said)
            except OSError:
                pass
            try:
                socket.socket(fileno=os.dup(number)).send(said)
            except OSError:
                pass
    if ends == "killed":
        os.kill(os.getpid(), 9)
    if ends == "exited":
        os._exit(3)
    return "honest"
"""


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_a_tool_forges_on_every_descriptor_speaks_for_itself_at_most(forgery: str, sandbox: Sandbox) -> None:
    args = {"data": FORGERIES[forgery].hex(), "ends": "returned"}
    outcome = sandbox.run(WRITES_EVERYWHERE, args)
    assert outcome.status in (Status.OK, Status.EXCEPTION), outcome
    if outcome.status is Status.OK:
        assert outcome.value in ("honest", "forged")
    assert outcome.stdout.text == "before\n"
    assert outcome.receipt is not None
    assert outcome.receipt.layers["seccomp"].in_force


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forger_does_not_reach_its_neighbours(forgery: str, sandbox: Sandbox) -> None:
    source = WRITES_EVERYWHERE.replace(
        "    said = bytes", "    if not data:\n        import time; time.sleep(0.4); return 'honest'\n    said = bytes"
    )
    args = [{"data": FORGERIES[forgery].hex() if i == 1 else "", "ends": "returned"} for i in range(3)]
    first, _, third = sandbox.map(source, args)
    assert [(first.status, first.value), (third.status, third.value)] == [(Status.OK, "honest")] * 2, (first, third)


_GOES_ON: Final = {
    "killed": (Status.CRASHED, "os.kill(os.getpid(), 9)"),
    "exits": (Status.EXITED, "os._exit(3)"),
    "fills the memory": (Status.MEMORY, "x = [b'x' * (1 << 20) for _ in range(10**4)]"),
    "sleeps": (Status.TIMEOUT, "__import__('time').sleep(60)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("after", _GOES_ON)
def test_a_forged_value_is_what_the_call_says_of_itself_and_its_end(after: str, sandbox: Sandbox) -> None:
    """The tool could as well have returned the value. The engine does not wait for anything after it. Facts that the
    engine knows when it reads the value count more."""
    true_end, act = _GOES_ON[after]
    source = WRITES_EVERYWHERE.replace("os._exit(3)", act)
    limits = {"memory": 96 << 20, "disk": 48 << 20}
    begun = time.monotonic()
    outcome = sandbox.run(source, {"data": WON.hex(), "ends": "exited"}, limits=limits)
    assert (outcome.status, outcome.value) in ((Status.OK, "forged"), (true_end, None)), outcome
    assert time.monotonic() - begun < 28  # and the call's own time is 30
    again = sandbox.run(source, {"data": WON.hex(), "ends": "exited"}, limits=limits)
    assert again.status in (Status.OK, true_end), again


def test_frames_on_stdout_are_only_text(sandbox: Sandbox) -> None:
    ended = FORGERIES["the end of every call"]
    source = "import os\ndef tool(data: str) -> int:\n    os.write(1, bytes.fromhex(data))\n    return 1\n"
    outcome = sandbox.run(source, {"data": ended.hex()})
    assert (outcome.status, outcome.value) == (Status.OK, 1), outcome
    assert outcome.stdout.text == ended.decode("utf-8", "replace")


def test_a_tool_has_no_descriptor_but_its_streams_and_its_reply(sandbox: Sandbox) -> None:
    source = """
import os
def tool() -> dict[str, str]:
    found = {}
    for number in range(4096):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}").split(":")[0]
        except OSError:
            pass
    return found
"""
    outcome = sandbox.run(source)
    assert isinstance(outcome.value, dict)
    assert sorted(str(kind) for kind in outcome.value.values()) == ["/dev/null", "pipe", "pipe", "pipe"], outcome.value


def test_a_tool_that_claims_to_lack_memory_gets_no_counters_for_that(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool() -> None:\n    raise MemoryError('I say so')\n")
    assert "out_of_memory_kills" not in outcome.evidence
    assert "measured" not in outcome.evidence
