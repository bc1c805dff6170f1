"""Locks admit one builder and any number of users, and die with their owner."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from sandbox.environments.disk.locks import KeyLock, Owner, UseCounts, lock_file, locked_file
from sandbox.environments.store.store import Store
from sandbox.errors import EnvironmentUnavailable
from tests.unit.environments.made_wheels import key_of
from tests.unit.environments.other_processes import heard, nudge, running

HOLDING = """
lock = store.lock(key_of(1))
assert lock.try_acquire()
tell("has it")
wait()
lock.release()
tell("gave it back")
wait()
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def in_a_loop(action: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await action()

    asyncio.run(run())


def test_a_key_has_one_holder(store: Store) -> None:
    first, second = store.lock(key_of(1)), store.lock(key_of(1))
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()


def test_keys_do_not_block_each_other(store: Store) -> None:
    locks = [store.lock(key_of(number)) for number in range(2)]
    assert all(lock.try_acquire() for lock in locks)
    for lock in locks:
        lock.release()


def test_releasing_twice_is_harmless(store: Store) -> None:
    lock = store.lock(key_of(1))
    assert lock.try_acquire()
    lock.release()
    other = store.lock(key_of(1))
    assert other.try_acquire()
    lock.release()
    assert not store.lock(key_of(1)).try_acquire()
    other.release()


def test_acquiring_twice_is_an_error(store: Store) -> None:
    lock = store.lock(key_of(1))
    assert lock.try_acquire()
    with pytest.raises(RuntimeError, match="by this very object"):
        lock.try_acquire()
    lock.release()


def test_another_thread_may_release_a_lock(store: Store) -> None:
    lock = store.lock(key_of(1))
    assert lock.try_acquire()
    thread = Thread(target=lock.release)
    thread.start()
    thread.join()
    again = store.lock(key_of(1))
    assert again.try_acquire()
    again.release()


def test_threads_exclude_each_other(store: Store) -> None:
    inside: list[int] = []
    most: list[int] = []

    async def build() -> None:
        async with store.lock(key_of(1)).held():
            inside.append(1)
            most.append(len(inside))
            await asyncio.sleep(0)
            inside.pop()

    threads = [Thread(target=in_a_loop, args=(build,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


@pytest.mark.slow
def test_a_waiting_caller_learns_whose_lock_it_is(store: Store) -> None:
    told: list[Owner | None] = []

    async def wait(process_id: int, let_go: Callable[[], None]) -> None:
        def on_wait(owner: Owner | None) -> None:
            told.append(owner)
            let_go()

        async with store.lock(key_of(1)).held(timeout_s=60, on_wait=on_wait):
            assert told[0] is not None
            assert told[0].pid == process_id
            assert abs(told[0].since - time.time()) < 60
            assert 0 <= told[0].since - told[0].started < 60
            assert f"process {process_id} since " in str(told[0])
            assert f"process {process_id} on elsewhere since " in str(replace(told[0], host="elsewhere"))

    with running(HOLDING, store.root) as other:
        assert heard(other) == "has it"
        in_a_loop(lambda: wait(other.pid, lambda: nudge(other)))
        assert heard(other) == "gave it back"


@pytest.mark.slow
def test_a_dead_owners_lock_is_gone_with_it(store: Store) -> None:
    with running(HOLDING, store.root) as other:
        assert heard(other) == "has it"
        assert not store.lock(key_of(1)).try_acquire()
        other.kill()
        other.wait()
        lock = store.lock(key_of(1))
        assert lock.try_acquire()
        owner = lock.owner()
        assert owner is not None
        assert owner.pid == os.getpid()
        lock.release()


@pytest.mark.slow
def test_a_timeout_names_the_holder(store: Store) -> None:
    async def wait() -> None:
        with pytest.raises(EnvironmentUnavailable, match=r"built by process \d+ since .* after 0\.05 s"):
            await store.lock(key_of(1)).acquire(timeout_s=0.05)

    with running(HOLDING, store.root) as other:
        assert heard(other) == "has it"
        in_a_loop(wait)


def test_a_cancelled_waiter_holds_nothing(store: Store) -> None:
    holder, waiting = store.lock(key_of(1)), asyncio.Event()

    async def cancelled() -> None:
        lock = store.lock(key_of(1))
        task = asyncio.ensure_future(lock.acquire(on_wait=lambda _: waiting.set()))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert holder.try_acquire()
    in_a_loop(cancelled)
    holder.release()
    assert holder.try_acquire()
    holder.release()


def test_a_cancelled_builder_releases_its_lock(store: Store) -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        async def build() -> None:
            async with store.lock(key_of(1)).held():
                started.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(build())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_a_loop(cancelled)
    lock = store.lock(key_of(1))
    assert lock.try_acquire()
    lock.release()


def test_waiting_does_not_block_the_loop(store: Store) -> None:
    async def both() -> None:
        first, second = store.lock(key_of(1)), store.lock(key_of(1))
        assert first.try_acquire()
        waiting = asyncio.Event()
        task = asyncio.ensure_future(second.acquire(on_wait=lambda _: waiting.set()))
        await waiting.wait()
        first.release()
        await task
        second.release()

    in_a_loop(both)


def test_a_malformed_record_hides_the_owner_only(tmp_path: Path) -> None:
    (path := tmp_path / "lock").write_text("nonsense")
    assert KeyLock(path, what="it").owner() is None
    path.write_text('{"pid": 1}')
    assert KeyLock(path, what="it").owner() is None


def test_a_removed_lock_file_is_not_trusted(tmp_path: Path) -> None:
    """A lock on the removed file excludes no other process, so no caller may end up with it."""
    path = tmp_path / "lock"
    with locked_file(path) as has_it:
        assert has_it
        path.unlink()
        with locked_file(path) as has_the_new_one:
            assert has_the_new_one


def test_a_link_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        lock_file(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


def test_many_uses_of_one_engine_take_one_descriptor(tmp_path: Path) -> None:
    uses, path = UseCounts(), tmp_path / "use"
    before = len(os.listdir("/proc/self/fd"))
    held = [use for _ in range(10) if (use := uses.use(path))]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    for use in held[:9]:
        use.release()
        use.release()
    with locked_file(path) as is_unused:
        assert not is_unused
    held[9].release()
    with locked_file(path) as is_unused:
        assert is_unused
        assert uses.use(path) is None


def test_engines_share_an_environment(tmp_path: Path) -> None:
    first, second = UseCounts().use(tmp_path / "use"), UseCounts().use(tmp_path / "use")
    assert first is not None
    assert second is not None
    with first, second, locked_file(tmp_path / "use") as is_unused:
        assert not is_unused


@pytest.mark.slow
def test_a_child_process_inherits_no_lock(store: Store) -> None:
    script = """
import os, subprocess
lock = store.lock(key_of(1))
assert lock.try_acquire()
child = subprocess.Popen(["cat"], close_fds=False)
tell(child.pid)
wait()
"""
    with running(script, store.root) as other:
        child = int(heard(other))
        other.kill()
        os.kill(child, 0)
        other.wait()
        lock = store.lock(key_of(1))
        assert lock.try_acquire()
        lock.release()
