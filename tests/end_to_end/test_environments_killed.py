"""Engines that are killed while they make an environment: the next one works at once, and nothing of the dead stays.

An engine in a process of its own tells how far it is, and is killed by the kernel at that moment, without a chance to
tidy up. All that it held ends with it: its boxes, its locks, its right to the folders it worked in.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from sandbox import Sandbox
from sandbox.environments.progress import Progress
from sandbox.environments.store.store import Store
from tests.checkout import ROOT
from tests.end_to_end.calls import groups_of, wait_until
from tests.end_to_end.packages import machine_with, publish_files, version_of
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

STAGES: Final = ("resolve", "download", "unpack", "compile", "verify", "publish")
MOMENTS: Final = 6
LONGEST_S: Final = 2.0
LARGE: Final = 4 << 20
SOURCE: Final = version_of("wanted", "wanted")
_ENGINE: Final = """
import json, sys, threading
from sandbox import Sandbox

store, source, stop_at = json.loads(sys.argv[1])
told = set()

def tell(event):
    if event.stage not in told:
        told.add(event.stage)
        print(event.stage, flush=True)
    if event.stage == stop_at:
        threading.Event().wait()

print("begun", flush=True)
with Sandbox(store=store, on_progress=tell) as engine:
    print(engine.run(source).value, flush=True)
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIndex]:
    """An index of a package that takes a moment to download and to unpack, and of one that it needs."""
    folder = tmp_path_factory.mktemp("wheels")
    noise = random.Random(1).randbytes(LARGE).hex()
    modules = {f"wanted/part{number}.py": f"NUMBER = {number}\n" for number in range(100)}
    files = {"wanted/__init__.py": "VERSION = '1.0'\n", "wanted/noise.txt": noise, **modules}
    publish_files(folder, "wanted", files, requires=("needed",))
    publish_files(folder, "needed", {"needed.py": ""})
    with LocalIndex(folder) as index, machine_with(index.url):
        yield index


class _Engine:
    """An engine in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def said(self) -> str:
        """The next stage it came to, or what its call returned."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def reach(self, stage: str) -> None:
        """Wait until it is there."""
        while (said := self.said()) != stage:
            assert said, f"it ended before it came to {stage}"

    def kill(self) -> None:
        """Kill it; whatever it started is gone a moment later. Its control groups are, too, unless it had just begun to
        make one: then the next engine removes them."""
        below = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.kill()
        self.process.wait()
        assert wait_until(lambda: not [each for each in below if each.is_running()]), below


@contextmanager
def _engine(store: Path, *, stop_at: str = "") -> Iterator[_Engine]:
    """Start an engine that begins to make the environment, and stops at the given stage."""
    command = [sys.executable, "-c", _ENGINE, json.dumps([str(store), SOURCE, stop_at])]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        engine = _Engine(process)
        try:
            engine.reach("begun")
            yield engine
        finally:
            process.kill()


def _assert_works_at_once(folder: Path, *dead: int) -> None:
    """A new engine has one whole environment in the end, and nothing of the dead is kept."""
    begun = time.monotonic()
    with Sandbox(store=folder) as engine:
        assert engine.run(SOURCE).value == "1.0"
    assert time.monotonic() - begun < 110
    assert wait_until(lambda: not any(groups_of(each) for each in dead))
    store = Store(folder)
    (environment,) = store.list()
    assert len(list(folder.glob("envs/*/*"))) == 1
    assert store.verify(environment.key).is_intact
    store.prune()
    assert list(store.building.iterdir()) == []
    assert [each.key for each in store.list()] == [environment.key]


@pytest.mark.parametrize("is_stopped", [True, False], ids=["standing still", "at work"])
@pytest.mark.parametrize("stage", STAGES)
def test_an_engine_killed_at_any_stage_leaves_a_store_that_works(
    stage: str, is_stopped: bool, index: LocalIndex, tmp_path: Path
) -> None:
    with _engine(tmp_path / "store", stop_at=stage if is_stopped else "") as engine:
        engine.reach(stage)
        engine.kill()
    _assert_works_at_once(tmp_path / "store", engine.process.pid)


def test_engines_killed_at_random_moments_leave_a_store_that_works(index: LocalIndex, tmp_path: Path) -> None:
    chance, dead = random.Random(), []
    for _ in range(MOMENTS):
        with _engine(tmp_path / "store") as engine:
            moment = time.monotonic() + chance.uniform(0, LONGEST_S)
            wait_until(lambda: time.monotonic() > moment or engine.process.poll() is not None)  # noqa: B023
            engine.kill()
            dead.append(engine.process.pid)
    _assert_works_at_once(tmp_path / "store", *dead)


def test_the_lock_of_a_dead_owner_makes_no_caller_wait(index: LocalIndex, tmp_path: Path) -> None:
    with _engine(tmp_path / "store", stop_at="unpack") as engine:
        engine.reach("unpack")
        assert list((tmp_path / "store" / "locks").glob("*.build"))
        engine.kill()
    told: list[Progress] = []
    with Sandbox(store=tmp_path / "store", on_progress=told.append) as engine_after:
        assert engine_after.run(SOURCE).value == "1.0"
    assert "wait" not in {each.stage for each in told}


@contextmanager
def _two(store: Path) -> Iterator[tuple[_Engine, _Engine]]:
    """Start an engine that stops during its build, and another that waits for it."""
    with _engine(store, stop_at="publish") as owner:
        owner.reach("publish")
        with _engine(store) as waiter:
            waiter.reach("wait")
            yield owner, waiter


def test_who_waits_for_a_slow_owner_takes_over_when_that_is_killed(index: LocalIndex, tmp_path: Path) -> None:
    with _two(tmp_path / "store") as (owner, waiter):
        asked = len(index.asked)
        owner.kill()
        waiter.reach("1.0")
        assert not [path for path in index.asked[asked:] if path.endswith(".whl")], "it downloaded once more"
        assert waiter.process.wait() == 0
    _assert_works_at_once(tmp_path / "store")


def test_who_waits_for_a_slow_owner_does_not_build_again(index: LocalIndex, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with Sandbox(store=tmp_path / "store") as engine:
        assert engine.run(SOURCE).value == "1.0"
    (environment,) = store.list()
    place, aside = environment.home, tmp_path / "aside"
    place.rename(aside)
    lock = store.lock(environment.key)
    assert lock.try_acquire()
    asked = len(index.asked)
    with _engine(tmp_path / "store") as waiter:
        waiter.reach("wait")
        aside.rename(place)
        lock.release()
        said = [waiter.said(), waiter.said()]
        assert waiter.process.wait() == 0
    assert said == ["ready", "1.0"]
    assert len(index.asked) == asked
