"""The usage of a call is the sum over all its processes, without shared memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final, cast

import pytest

from box import processes
from sandbox.protocol.frames import Stream
from tests.runners.plain_runner import RUNNER, plain_plan, start_runner
from zygote.child import Child

STAT: Final = "%d (a) ) S) S %d 1 1 0 -1 4194560 100 0 0 0 %d %d %d %d 20 0 %d 0 100 1000000 200"
STATUS: Final = """Name:\tpython
VmHWM:\t   99999 kB
RssAnon:\t    4096 kB
RssFile:\t    8192 kB
RssShmem:\t     512 kB
VmPTE:\t      64 kB
VmSwap:\t     128 kB
HugetlbPages:\t    2048 kB
Threads:\t3
"""
MIB: Final = 1 << 20


def _process(parent: int, *, threads: int = 1, ticks: int = 0) -> processes.ProcessStat:
    return processes.ProcessStat(parent=parent, threads=threads, ticks=ticks)


def test_a_process_is_read_whatever_its_name() -> None:
    process = processes.parse_stat(STAT % (7, 3, 10, 20, 300, 4000, 5))
    assert (process.parent, process.threads, process.ticks) == (3, 5, 4330)


def test_memory_counts_pages_without_a_file() -> None:
    assert processes.own_bytes(STATUS) == (4096 + 512 + 64 + 128 + 2048) * 1024


def test_a_process_that_has_ended_holds_nothing() -> None:
    assert processes.own_bytes("Name:\tpython\nState:\tZ (zombie)\n") == processes.own_bytes("") == 0


@pytest.mark.parametrize(
    ("text", "held"),
    [("sockets: used 40\nTCP: inuse 1", 8 * 1000), ("sockets: used 32\n", 0), ("", 0), ("nothing known", 0)],
)
def test_sockets_beyond_a_few_count_as_their_capacity(text: str, held: int) -> None:
    assert processes.socket_bytes(text, each=1000) == held


def test_a_tree_is_all_that_descends_from_its_root() -> None:
    table = {pid: _process(parent) for pid, parent in {1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 1}.items()}
    assert sorted(processes.tree(2, table)) == [2, 3, 4, 5]


def test_a_tree_without_its_root_keeps_the_descendants() -> None:
    assert processes.tree(2, {3: _process(2)}) == [3]


def test_a_table_with_a_ring_comes_to_an_end() -> None:
    assert sorted(processes.tree(2, {2: _process(3), 3: _process(2)})) == [2, 3]


@pytest.mark.parametrize(
    ("used", "limit"),
    [
        ({"memory": 10, "cpu": 1.0, "processes": 2}, None),
        ({"memory": 11, "cpu": 1.0, "processes": 2}, "memory"),
        ({"memory": 10, "cpu": 1.1, "processes": 2}, "cpu"),
        ({"memory": 10, "cpu": 1.0, "processes": 3}, "processes"),
    ],
)
def test_the_limit_that_is_passed_is_named(used: dict[str, float], limit: str | None) -> None:
    assert processes.first_passed(used, {"memory": 10, "cpu": 1.0, "processes": 2, "interval": 1}) == limit


def test_no_call_is_watched_if_control_groups_count() -> None:
    unmetered = processes.LimitWatch(None)
    assert (unmetered.is_on, unmetered.over([cast(Child, None)], now=0.0)) == (False, [])


def test_looks_are_an_interval_apart() -> None:
    ours = Child(os.getpid(), 3, 4, slot=None, home=None, ahead=False)
    patient = processes.LimitWatch({"interval": 60, "memory": 1 << 60, "cpu": 1e9, "processes": 0})
    [(child, limit)] = patient.over([ours], now=100.0)
    assert (child, limit) == (ours, "processes")
    assert child.seen["processes"] >= 1
    assert patient.over([ours], now=159.0) == []
    assert len(patient.over([ours], now=161.0)) == 1


_TREE: Final = """
import json, os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from box import processes

of_the_zygote = bytearray(b"z" * (80 << 20))
ready, written = os.pipe()
root = os.fork()
if root == 0:
    if os.fork() == 0:
        its_own = bytearray(b"t" * (40 << 20))
        threading.Thread(target=signal.pause, daemon=True).start()
        while time.process_time() < 0.3:
            pass
        os.write(written, b".")
        signal.pause()
    if os.fork() == 0:
        while time.process_time() < 0.2:
            pass
        os._exit(0)
    os.wait()
    os.write(written, b".")
    signal.pause()
for _ in range(2):
    os.read(ready, 1)
table = processes.read_processes()
tree = processes.tree(root, table)
print(json.dumps({"used": processes.usage(root, table), "pids": len(tree)}))
for pid in tree:
    os.kill(pid, signal.SIGKILL)
os.wait()
"""


@pytest.mark.slow
def test_a_real_tree_is_measured_without_memory_of_the_zygote() -> None:
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _TREE, RUNNER], capture_output=True, text=True, check=True
    )
    seen = json.loads(answer.stdout)
    assert (seen["pids"], seen["used"]["processes"]) == (2, 3)
    assert 38 * MIB <= seen["used"]["memory"] < 60 * MIB
    assert seen["used"]["cpu"] >= 0.4


WATCH: Final = {"interval": 0.02, "memory": 64 * MIB, "cpu": 0.5, "processes": 5}
GREEDY: Final = {
    "memory": "def tool():\n    held = []\n    while True: held.append(bytearray(b'x' * 100_000))\n",
    "cpu": "import os\ndef tool():\n    os.fork()\n    while True: pass\n",
    "processes": "import os, signal\ndef tool():\n    for _ in range(8):\n        if not os.fork(): signal.pause()\n"
    "    signal.pause()\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("limit", GREEDY)
@pytest.mark.parametrize("prints", [False, True], ids=["silent", "printing"])
def test_a_call_over_its_limit_is_killed_and_the_limit_named(limit: str, prints: bool, tmp_path: Any) -> None:
    source = GREEDY[limit]
    if prints:
        source = source.replace(
            "def tool():\n",
            "import threading\ndef talk():\n    while True: print('x' * 1000)\n"
            "def tool():\n    threading.Thread(target=talk, daemon=True).start()\n",
        )
    watching = {**WATCH, "cpu": WATCH["cpu"] if limit == "cpu" else 1e6}
    if limit == "cpu" and prints:
        watching["cpu"] = 1.0
    with start_runner(plain_plan(tmp_path, call={"watch": watching})) as runner:
        runner.hear()
        seen = runner.run(source, credit=1 << 32)
        assert seen.ended is not None
        assert (seen.ended.killed_by, seen.ended.signal) == (limit, 9)
        assert bool(seen.streams[Stream.STDOUT]) is prints
    assert os.listdir(tmp_path) == []
