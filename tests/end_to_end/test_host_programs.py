"""Programs that hold all threads of their event loop, or may have no more: their calls end as any others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from sandbox import AsyncSandbox, Outcome

PROLIFIC: Final = """
def tool() -> str:
    for _ in range(300):
        print("y" * 20_000)
    open("outputs/left", "w").write("q" * 300_000)
    return "x" * 2_000_000
"""
WITHOUT_THREADS: Final = f"""
import resource, sys, threading
from sandbox import Sandbox
with Sandbox() as sandbox:
    sandbox.run("def tool(): pass")
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    threading.stack_size(1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 28), -1))
    outcome = sandbox.run({PROLIFIC!r})
print(outcome.status, *sorted(artifact.name for artifact in outcome.artifacts))
"""


FORKED: Final = """
import os, sys, time
from sandbox import Sandbox
with Sandbox(policy=sys.argv[1]) as sandbox:
    sandbox.run("def tool(): pass")
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    begun = time.monotonic()
print(time.monotonic() - begun < 1.5)
os.kill(child, 9)
"""


async def _call_with_all_threads_held() -> Outcome:
    may_end = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    held = asyncio.create_task(asyncio.to_thread(may_end.wait))
    await asyncio.sleep(0)
    try:
        async with AsyncSandbox() as sandbox, asyncio.timeout(60):
            return await sandbox.run(PROLIFIC)
    finally:
        may_end.set()
        await held


def test_a_call_waits_for_no_thread_of_the_host_program() -> None:
    outcome = asyncio.run(_call_with_all_threads_held())
    assert outcome.status == "ok", outcome.error
    assert {"left", "stdout.txt", "value.txt"} == {artifact.name for artifact in outcome.artifacts}


@pytest.mark.slow
def test_an_outcome_comes_back_where_no_more_threads_can_be_had() -> None:
    command = [sys.executable, "-c", WITHOUT_THREADS]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert answer.stdout.split() == ["ok", "left", "stdout.txt", "value.txt"], answer


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["default", "trusted"])
def test_a_program_that_has_forked_closes_its_boxes_at_once(policy: str) -> None:
    """The fork has a copy of all that leads to them."""
    answer = subprocess.run(
        [sys.executable, "-c", FORKED, policy], capture_output=True, text=True, timeout=100, check=False
    )
    assert (answer.stdout, answer.stderr) == ("True\n", ""), answer
