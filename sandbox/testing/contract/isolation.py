"""A call can see nothing of other calls, of earlier calls, and of the host."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any, Final

from sandbox.errors import IsolationUnavailable
from sandbox.outcome import Isolation
from sandbox.policy import Strength
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import Subject

_HOST_VARIABLE: Final = "SANDBOX_CONTRACT_HOST_VARIABLE"
_NEIGHBOURS: Final = ("first", "second")
_UNTIL_TOGETHER_S: Final = (0.5, 3.0, 10.0)
"""How long each of two calls stays, where one may have to wait for a box to open."""

LIST: Final = """
import os

def list_places() -> dict:
    return {place: sorted(name for name in os.listdir(place) if name[0] != ".") for place in (".", "outputs", "/tmp")}
"""
LITTER: Final = """
import json

def litter() -> str:
    json.MARK = "mine"
    for path in ("mine.txt", "/tmp/mine.txt"):
        with open(path, "w") as file:
            file.write("mine")
    return "littered"
"""
LOOK: Final = """
import json, os

def look() -> list:
    return [os.path.exists("mine.txt"), os.path.exists("/tmp/mine.txt"), hasattr(json, "MARK")]
"""
NEIGHBOUR: Final = """
import os, time

def neighbour(name: str, seconds: float) -> dict:
    begun = time.time()
    for place in (".", "/tmp"):
        with open(os.path.join(place, name + ".mine"), "w") as file:
            file.write(name)
    seen = set()
    while time.time() < begun + seconds:
        for place in (".", "/tmp"):
            seen.update(found for found in os.listdir(place) if found.endswith(".mine"))
        seen.update(pid for pid in os.listdir("/proc") if pid.isdigit() and _is_neighbour(pid, name))
        time.sleep(0.01)
    return {"seen": sorted(seen), "begun": begun, "ended": time.time()}

def _is_neighbour(pid: str, name: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ") as file:
            text = file.read()
    except OSError:
        return False
    return "CALLED=" in text and "CALLED=" + name not in text
"""
ENVIRONMENT: Final = "import os\n\ndef environment() -> dict:\n    return dict(os.environ)\n"
OPEN: Final = """
def open_all(paths: list) -> list:
    opened = []
    for path in paths:
        try:
            open(path, "rb").close()
            opened.append(path)
        except OSError:
            continue
    return opened
"""
CONNECT: Final = """
import socket

def connect(port: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except OSError as error:
        return type(error).__name__
    return "connected"
"""
KILL_ALL: Final = """
import os, signal

def kill_all() -> None:
    for pid in (*range(1, 40), os.getppid(), -1):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
"""
DRAW: Final = "import random, uuid\n\ndef draw() -> list:\n    return [random.random(), str(uuid.uuid4())]\n"
READ_STDIN: Final = "import sys\n\ndef read_stdin() -> str:\n    return sys.stdin.read()\n"
ECHO: Final = "def echo(value):\n    return value\n"


async def check_a_call_begins_with_empty_places(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(LIST, filename="list_places.py"))
    expect.same(outcome.value, {".": ["list_places.py", "outputs"], "outputs": [], "/tmp": []})


async def check_what_a_call_leaves_is_not_there_for_the_next(subject: Subject) -> None:
    async with subject.engine() as engine:
        expect.ok(await engine.sandbox.run(LITTER))
        outcome = expect.ok(await engine.sandbox.run(LOOK))
        expect.same(outcome.timing.path, "warm", what="the path, without which this check tells nothing,")
        expect.same(outcome.value, [False, False, False])


async def check_calls_at_the_same_time_do_not_see_each_other(subject: Subject) -> None:
    for seconds in _UNTIL_TOGETHER_S:
        found = await _neighbours(subject, seconds)
        expect.same([each["seen"] for each in found], [[f"{name}.mine"] for name in _NEIGHBOURS])
        if min(each["ended"] for each in found) > max(each["begun"] for each in found):
            return
    expect.that(False, "they did not run at the same time: this check can tell nothing")


async def _neighbours(subject: Subject, seconds: float) -> list[Any]:
    """Return the findings of two calls that began together, once their boxes were open."""
    calls = [
        subject.sandbox.run(NEIGHBOUR, {"name": name, "seconds": seconds}, env={"CALLED": name}) for name in _NEIGHBOURS
    ]
    return [expect.ok(outcome).value for outcome in await asyncio.gather(*calls)]


async def check_a_tool_has_no_variables_of_the_host(subject: Subject) -> None:
    os.environ[_HOST_VARIABLE] = "secret"
    try:
        async with subject.engine() as engine:
            outcome = expect.ok(await engine.sandbox.run(ENVIRONMENT, env={"GIVEN": "é"}))
    finally:
        del os.environ[_HOST_VARIABLE]
    found: Any = outcome.value
    expect.that(_HOST_VARIABLE not in found, "the host's environment is inherited")
    expect.same((found["GIVEN"], found["HOME"], found["TMPDIR"]), ("é", "/work", "/tmp"))
    expect.same((found["USER"], found["LOGNAME"]), ("tool", "tool"))


async def check_the_files_of_the_host_are_not_there(subject: Subject) -> None:
    with tempfile.NamedTemporaryFile(prefix="sandbox-contract-") as file:
        os.chmod(file.name, 0o644)
        secrets = [file.name, f"/proc/{os.getpid()}/environ", "/etc/shadow", __file__]
        outcome = expect.ok(await subject.sandbox.run(OPEN, {"paths": [*secrets, "/dev/null"]}))
    expect.same(outcome.value, ["/dev/null"])


async def check_services_of_the_host_cannot_be_reached(subject: Subject) -> None:
    reached: list[object] = []
    server = await asyncio.start_server(lambda reader, _: reached.append(reader), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        outcome = expect.ok(await subject.sandbox.run(CONNECT, {"port": port}))
    expect.same((outcome.value, len(reached)), ("ConnectionRefusedError", 0))


async def check_who_kills_everything_reaches_only_itself(subject: Subject) -> None:
    async with subject.engine() as engine:
        expect.ok(await engine.sandbox.run(ECHO, {"value": 1}))
        await engine.sandbox.run(KILL_ALL)
        expect.ok(await engine.sandbox.run(ECHO, {"value": 2}))
        expect.same(len(engine.boxes), 1, what="the number of boxes: a second one means that the first was reached; it")


async def check_no_two_calls_draw_the_same_numbers(subject: Subject) -> None:
    drawn: list[Any] = [expect.ok(await subject.sandbox.run(DRAW)).value for _ in range(4)]
    expect.same(len({number for pair in drawn for number in pair}), 8, what="how many of the numbers are different")


async def check_standard_input_is_empty(subject: Subject) -> None:
    expect.same(expect.ok(await subject.sandbox.run(READ_STDIN)).value, "")


async def check_the_receipt_shows_every_wall_that_the_policy_requires(subject: Subject) -> None:
    receipt = expect.ok(await subject.sandbox.run(ECHO, {"value": 1})).receipt
    if receipt is None:
        raise AssertionError("there is no receipt")
    policy = subject.policy
    expect.same((receipt.policy.name, receipt.policy.digest), (policy.name, policy.digest))
    down = [layer.value for layer in policy.isolation.require if not receipt.layers[layer.value].counts]
    expect.same(down, [], what="the list of required walls that are down")
    expect.that(Strength(receipt.isolation.value) >= policy.isolation.minimum, f"it is only {receipt.isolation}")
    expect.same(receipt.limits["wall"].value, policy.limits.wall)


async def check_what_cannot_be_enforced_is_refused(subject: Subject) -> None:
    policy = subject.policy_with("isolation", minimum=Strength.MACHINE)
    try:
        outcome = await subject.sandbox.run(ECHO, {"value": 1}, policy=policy)
    except IsolationUnavailable as refusal:
        expect.same(refusal.missing, ("machine",))
        expect.that(refusal.remedy, "no remedy is given")
    else:
        found = outcome.receipt.isolation if outcome.receipt else None
        expect.same(found, Isolation.MACHINE)
