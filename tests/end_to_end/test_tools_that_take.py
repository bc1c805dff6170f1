"""Tools that take all they can get: each meets the limit it went over, and the next call has everything again."""

from __future__ import annotations

from typing import Final

import pytest

from sandbox import Outcome, Sandbox, Status
from sandbox.errors import PolicyError
from sandbox.policy import load
from sandbox.policy.model import MIN_MEMORY

pytestmark = [pytest.mark.usefixtures("harmless"), pytest.mark.slow]

MIB: Final = 1 << 20
HEAD: Final = "import mmap, os, sys, time\ndef tool():\n    print('before')\n"
MEMORY: Final = 96 * MIB


def _take(sandbox: Sandbox, code: str, **limits: float) -> Outcome:
    outcome = sandbox.run(f"{HEAD}    {code}\n", limits=limits)
    assert outcome.stdout.text == "before\n", outcome
    return outcome


MEMORY_HOGS: Final = {
    "10 GB at once": "bytearray(10 << 30)",
    "10 GB at once, swallowing the refusal": """try: bytearray(10 << 30)
    except MemoryError: pass
    x = [bytearray(b'x' * (1 << 20)) for _ in range(10 << 10)]""",
    "slow growth": "x = []\n    while True: x.append(b'x' * len(x) * 100)",
    "growth over many processes": """for _ in range(8):
        if os.fork() == 0:
            x = b'x' * (8 << 20)
            time.sleep(60)
    x = b'x' * (70 << 20)
    time.sleep(60)""",
    "an anonymous file": """f = os.memfd_create('m')
    while True: os.write(f, b'x' * (1 << 20))""",
    "shared memory": """m = mmap.mmap(-1, 1 << 30)
    for i in range(0, 1 << 30, 4096): m[i] = 1""",
    "shared memory of many processes": """os.fork(); os.fork()
    m = mmap.mmap(-1, 1 << 28)
    for i in range(0, 1 << 28, 4096): m[i] = 1
    time.sleep(60)""",
    "a list": "x = [0]\n    while True: x += x",
    "a string": "x = 'x'\n    while True: x += x",
    "an integer": "x = 1\n    while True: x <<= 10 ** 8",
    # the tool's own process, which takes the most, comes last: so it is the one that the kernel ends
    "piles of pipes": """own, (reading, writing) = os.getpid(), os.pipe()
    for _ in range(3):
        os.getpid() == own and os.fork()
    for _ in range(112):
        write = os.pipe()[1]
        os.set_blocking(write, False)
        os.write(write, b'x' * (1 << 16))
    os.write(writing, b'.')
    if os.getpid() == own:
        for _ in range(4):
            os.read(reading, 1)
        x = b'x' * (68 << 20)
    time.sleep(60)""",
}


@pytest.mark.parametrize("kind", MEMORY_HOGS)
def test_memory_is_limited_for_the_whole_call(kind: str, sandbox: Sandbox) -> None:
    outcome = _take(sandbox, MEMORY_HOGS[kind], memory=MEMORY, disk=48 * MIB)
    assert (outcome.status, outcome.limit_name) == (Status.MEMORY, "memory"), outcome
    assert outcome.evidence["limit"] == MEMORY
    assert (outcome.usage.memory_peak_bytes or 0) <= MEMORY + 8 * MIB


@pytest.mark.root  # without control groups a call that is over at once is not seen to take more
def test_the_smallest_memory_limit_is_enough_for_a_call_and_is_enforced(sandbox: Sandbox) -> None:
    least = {"memory": MIN_MEMORY, "disk": MIB}
    assert _take(sandbox, "return 1", **least).value == 1
    outcome = _take(sandbox, f"return len(b'x' * {2 * MIN_MEMORY})", **least)
    assert (outcome.status, outcome.evidence["limit"]) == (Status.MEMORY, MIN_MEMORY), outcome
    with pytest.raises(PolicyError, match=r"limits\.memory: must be at least 4 MiB"):
        sandbox.run(HEAD, limits={"memory": "1KiB"})


def test_a_memory_error_that_python_can_still_raise_has_its_traceback(sandbox: Sandbox) -> None:
    outcome = _take(sandbox, "x = bytearray(10 << 30)")
    assert outcome.status is Status.MEMORY
    assert outcome.error is not None
    assert outcome.error.type == "MemoryError"
    assert "x = bytearray(10 << 30)" in (outcome.error.traceback or "")


def test_a_tool_that_survives_its_childs_death_by_memory_is_ok(sandbox: Sandbox) -> None:
    code = """if os.fork() == 0:
        x = [b'x' * (1 << 20) for _ in range(1000)]
    os.wait()
    return 'survived'"""
    outcome = _take(sandbox, code, memory=MEMORY, disk=48 * MIB)
    assert (outcome.status, outcome.value) == (Status.OK, "survived"), outcome
    assert outcome.evidence["out_of_memory_kills"] == 1


def test_memory_just_below_the_limit_is_to_be_had(sandbox: Sandbox) -> None:
    outcome = _take(sandbox, "x = b'x' * (400 << 20)\n    return len(x)")
    assert (outcome.status, outcome.value) == (Status.OK, 400 * MIB), outcome


FILE_HOGS: Final = {
    "bytes in many files": (
        """for i in range(10**6):
        with open(str(i), 'wb') as f: f.write(b'x' * (1 << 20))""",
        "disk",
    ),
    "bytes in /tmp": ("for i in range(10**6): open(f'/tmp/{i}', 'wb').write(b'x' * (1 << 20))", "disk"),
    "bytes in /dev/shm": ("for i in range(10**6): open(f'/dev/shm/{i}', 'wb').write(b'x' * (1 << 20))", "disk"),
    "empty files": ("for i in range(10**6): os.close(os.open(str(i), os.O_CREAT))", "inodes"),
    "folders in folders": ("while True: os.mkdir('d'); os.chdir('d')", "inodes"),
    "links": ("for i in range(10**6): os.symlink('x', str(i))", "inodes"),
    "one large file": ("f = open('x', 'wb', 0)\n    while True: f.write(b'x' * (1 << 20))", "file_size"),
    "one sparse file": ("os.truncate(os.open('x', os.O_CREAT | os.O_RDWR), 1 << 40)", "file_size"),
    "one reserved file": ("os.posix_fallocate(os.open('x', os.O_CREAT | os.O_RDWR), 0, 64 << 20)", "file_size"),
    "open files": ("files = []\n    while True: files.append(open('/dev/null'))", "open_files"),
    "pipes": ("files = []\n    while True: files.append(os.pipe())", "open_files"),
}
FILE_LIMITS: Final = {"disk": 24 * MIB, "inodes": 500, "file_size": 8 * MIB, "open_files": 64}


@pytest.mark.parametrize("most", range(9, 17))
def test_a_box_of_few_files_still_has_a_place_for_the_value(most: int) -> None:
    """The channel has a number near the highest possible one, which is then near the numbers of a new call."""
    policy = load("default")
    few = policy.model_copy(update={"limits": policy.limits.model_copy(update={"open_files": most})})
    with Sandbox(policy=few) as sandbox:
        outcomes = [sandbox.run(f"{HEAD}    return 7\n") for _ in range(3)]
    assert [(outcome.value, outcome.stdout.text) for outcome in outcomes] == [(7, "before\n")] * 3


@pytest.mark.parametrize("kind", FILE_HOGS)
def test_what_a_call_can_write_and_open_is_limited(kind: str, sandbox: Sandbox) -> None:
    code, name = FILE_HOGS[kind]
    outcome = _take(sandbox, code, **FILE_LIMITS)
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, name), outcome
    assert outcome.evidence["limit"] == FILE_LIMITS[name]
    assert outcome.error is not None
    assert outcome.error.type == "OSError"
    assert code.splitlines()[-1].strip() in (outcome.error.traceback or "")


FILLS_AND_LINGERS: Final = """try:
        for i in range(10**6):
            with open(str(i), 'wb') as f: f.write(b'x' * (1 << 20))
    except OSError as error:
        reply = b'{"kind":"exception","error":{"type":"OSError","message":"full","traceback":""},' \\
            b'"memory":false,"errno":%d,"warnings":[]}' % error.errno
    for number in range(3, 1024):
        try: os.write(number, len(reply).to_bytes(4, 'big') + reply)
        except OSError: pass
    time.sleep(600)"""


def test_a_full_disk_is_reported_for_a_process_that_lingers(sandbox: Sandbox) -> None:
    """The process replies and stays, so that only its guard can say how full the disk was."""
    outcome = _take(sandbox, FILLS_AND_LINGERS, **FILE_LIMITS)
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "disk"), outcome
    assert outcome.usage.cpu_s is not None


def test_a_disk_of_a_single_byte_is_a_full_disk(sandbox: Sandbox) -> None:
    outcome = _take(sandbox, "open('x', 'wb', 0).write(b'x')", disk=1)
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "disk"), outcome


def test_a_disk_full_of_deleted_files_is_full(sandbox: Sandbox) -> None:
    code = """files = []
    while True:
        files.append(open('x', 'wb', 0)); files[-1].write(b'x' * (1 << 20)); os.unlink('x')"""
    outcome = _take(sandbox, code, **FILE_LIMITS)
    assert outcome.status in (Status.LIMIT, Status.EXCEPTION)  # the processes may be gone, unseen, when the call ends
    assert outcome.error is not None
    assert "No space left" in outcome.error.message


def test_a_full_disk_that_the_tool_survives_is_no_failure(sandbox: Sandbox) -> None:
    code = """try:
        while True:
            with open('x', 'ab') as f: f.write(b'x' * (1 << 20))
    except OSError: pass
    os.truncate('x', 1 << 20)
    return os.path.getsize('x')"""
    outcome = _take(sandbox, code, **{**FILE_LIMITS, "file_size": 64 * MIB})
    assert (outcome.status, outcome.value) == (Status.OK, MIB), outcome


def test_what_one_call_wrote_the_next_does_not_find(sandbox: Sandbox) -> None:
    places = ["/work/kept", "/tmp/kept", "/dev/shm/kept", "/var/tmp/kept"]
    source = """
import os
def tool(places: list[str]) -> list[str]:
    found = [place for place in places if os.path.exists(place)]
    for place in places:
        open(place, "w").write("kept")
    return found
"""
    outcomes = [sandbox.run(source, {"places": places}) for _ in range(3)]
    assert [outcome.value for outcome in outcomes] == [[], [], []], outcomes
