"""The engine's own threads do blocking work, however busy the event loop's are; without threads, the caller does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from sandbox.threads import Threads, in_own_thread

WITHOUT_THREADS = """
import asyncio, resource, threading
from sandbox.threads import Threads, in_own_thread

done = []

def work(number):
    done.append(number)
    return threading.current_thread() is threading.main_thread()

async def scene():
    threads, may_end = Threads(), threading.Event()
    first = asyncio.create_task(threads.do(may_end.wait))
    await asyncio.sleep(0)
    threading.stack_size(1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, -1))
    for number, do in enumerate((threads.do, threads.do_in_turn, in_own_thread)):
        assert await do(lambda: work(number))
    may_end.set()
    assert await first
    await threads.do(lambda: None)  # by the one thread there is, after what it found in its queue
    threads.close()

asyncio.run(scene())
assert done == [0, 1, 2], done
"""


async def _with_the_loops_threads_held(work: Callable[[], Awaitable[object]]) -> object:
    may_end, executor = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    held = asyncio.create_task(asyncio.to_thread(may_end.wait))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(60):
            return await work()
    finally:
        may_end.set()
        await held


@pytest.mark.parametrize("do", [Threads().do, Threads().do_in_turn, in_own_thread])
def test_a_busy_thread_pool_of_the_event_loop_delays_nothing(
    do: Callable[[Callable[[], object]], Awaitable[object]],
) -> None:
    found = asyncio.run(_with_the_loops_threads_held(lambda: do(threading.get_ident)))
    assert found not in (None, threading.get_ident())


def test_an_exception_in_the_thread_is_raised_in_the_caller() -> None:
    with pytest.raises(ValueError, match="seven"):
        asyncio.run(Threads().do(partial(int, "seven")))


def test_slow_work_delays_no_disk_work() -> None:
    async def scene() -> None:
        threads, may_end = Threads(), threading.Event()
        slow = [asyncio.create_task(threads.do_in_turn(may_end.wait)) for _ in range(20)]
        await asyncio.sleep(0)
        assert await threads.do(lambda: 7) == 7
        may_end.set()
        assert all(await asyncio.gather(*slow))
        threads.close()

    asyncio.run(scene())


def test_without_threads_the_work_is_done_once_in_the_caller() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_THREADS], check=True, timeout=60)
