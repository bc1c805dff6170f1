"""Failed builds are explained in full, not repeated for every caller, and not held against callers with more rights."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sandbox import AsyncSandbox, Sandbox
from sandbox.environments.progress import Progress, Stage
from sandbox.environments.store.store import Store
from sandbox.errors import BuildFailed
from tests.checkout import ROOT
from tests.end_to_end.calls import wait_until, zygotes
from tests.end_to_end.command_line import COMMAND, environment
from tests.end_to_end.command_line import sandbox as command
from tests.end_to_end.packages import machine_with, publish, publish_files, refusal_of, version_of
from tests.escape.sources import make_source
from tests.indexes import LocalIndex, make_wheel

pytestmark = pytest.mark.slow

LARGE: Final = 4 << 20
BROKEN: Final = """
def compile_with(compiler):
    try:
        open("/etc/shadow").read()
    except OSError as error:
        raise RuntimeError(f"no such compiler: {compiler}") from error
"""
BROKEN_AT: Final = {
    "when it is asked what it requires": "def metadata():\n    compile_with('cc')\ndef attack(folder): pass\n",
    "when it is built": "def attack(folder):\n    compile_with('cc')\n",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "small", "1.0")
    publish_files(folder, "large", {"large.py": "VERSION = '1.0'\n", "large.txt": "0" * LARGE})
    publish_files(folder, "greedy", {"greedy.py": f"X = ({'0,' * 2_000_000})\n"})
    make_wheel(folder, "broken", "1.0", {"broken.py": ""}, extra={"unlisted.py": ""})
    return folder


class _Watched:
    """An engine, and the stages that it came to."""

    def __init__(self, engine: Sandbox, told: list[Progress]) -> None:
        self.engine = engine
        self._told = told

    def stages(self) -> set[Stage]:
        """Since they were asked for last."""
        stages = {each.stage for each in self._told}
        self._told.clear()
        return stages


@contextmanager
def _watched(store: Path) -> Iterator[_Watched]:
    told: list[Progress] = []
    with Sandbox(store=store, on_progress=told.append) as engine:
        yield _Watched(engine, told)


@pytest.mark.usefixtures("index")
def test_what_failed_is_not_tried_again_at_once(tmp_path: Path) -> None:
    with _watched(tmp_path) as watched:
        first = refusal_of(watched.engine, "broken")
        assert "unpack" in watched.stages()
    with _watched(tmp_path) as watched:
        again = refusal_of(watched.engine, "broken")
        assert watched.stages() & {"download", "unpack"} == set()
        assert watched.engine.run(version_of("small", "small")).value == "1.0"
    assert again.message == first.message
    assert isinstance(again, BuildFailed)
    assert re.search(r"a moment ago; try again in \d+ s", again.remedy or "")


@pytest.mark.usefixtures("index")
def test_who_may_use_more_of_the_disk_is_not_refused_for_who_may_not(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\nbuild_disk = "2MiB"\n')
    with Sandbox(store=tmp_path / "store") as engine:
        refused = refusal_of(engine, "large", policy=str(policy)).message
        assert "2 MiB" in refused
        assert "environment.build_disk" in refused
        assert "a moment ago" in str(refusal_of(engine, "large", policy=str(policy)))
        assert engine.run(version_of("large", "large")).value == "1.0"


@pytest.mark.usefixtures("index")
def test_a_build_beyond_the_memory_of_its_policy_names_that_limit(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\nbuild_memory = "100MiB"\n')
    with Sandbox(store=tmp_path / "store") as engine:
        refused = refusal_of(engine, "greedy", policy=str(policy)).message
    assert "limit (memory), as environment.build_memory in the policy says" in refused


@pytest.mark.usefixtures("index")
def test_one_tenants_failure_is_no_others(tmp_path: Path) -> None:
    with _watched(tmp_path) as watched:
        refusal_of(watched.engine, "broken", tenant="one")
        watched.stages()
        assert "a moment ago" not in str(refusal_of(watched.engine, "broken", tenant="two"))
        assert "unpack" in watched.stages()


def test_what_cannot_be_had_offline_is_had_at_once_with_an_index(wheels: Path, tmp_path: Path) -> None:
    lock, store = tmp_path / "lock.json", tmp_path / "store"
    with LocalIndex(wheels) as index, machine_with(index.url):
        assert command("env", "lock", "small", "-o", lock, "--store", tmp_path / "elsewhere").returncode == 0
        offline = command("env", "build", "--lock", lock, "--offline", "--store", store)
        assert offline.returncode == 4, offline.stderr
        assert "no index is asked offline" in offline.stderr
        built = command("env", "build", "--lock", lock, "--store", store)
    assert built.returncode == 0, built.stderr


@pytest.mark.usefixtures("index")
def test_a_package_of_python_2_is_refused_and_one_with_a_few_files_is_not(wheels: Path, tmp_path: Path) -> None:
    publish_files(wheels, "ancient", {"ancient/__init__.py": "print 'for Python 2'\n", "ancient/more.py": "x = 1\n"})
    publish_files(wheels, "mixed", {"mixed.py": "VERSION = '1.0'\n", "mixed_2.py": "print 'for Python 2'\n"})
    publish_files(wheels, "nothing", {"nothing/data.txt": "", "tests/__init__.py": ""})
    with Sandbox(store=tmp_path) as engine:
        refusal = refusal_of(engine, "ancient")
        assert isinstance(refusal, BuildFailed)
        assert re.search(
            r"ancient: none of its modules is Python 3\.\d+: .*print.*__init__\.py, line 1", refusal.message
        )
        assert engine.run(version_of("mixed", "mixed", "nothing")).value == "1.0"


def test_a_wheel_that_is_gone_has_what_was_resolved_before_resolved_again(tmp_path: Path) -> None:
    with LocalIndex(tmp_path / "index") as index, machine_with(index.url), Sandbox(store=tmp_path / "store") as engine:
        publish(index.folder, "moving", "1.0")
        assert engine.lock(requirements=["moving"]).packages[0].version == "1.0"
        publish(index.folder, "moving", "2.0")
        assert engine.lock(requirements=["moving"]).packages[0].version == "1.0"
        for wheel in index.folder.glob("moving-1.0-*"):
            wheel.unlink()
        assert engine.run(version_of("moving", "moving")).value == "2.0"
        assert engine.lock(requirements=["moving"]).packages[0].version == "2.0"


def test_a_replaced_wheel_is_not_taken_before_a_refresh(tmp_path: Path) -> None:
    with LocalIndex(tmp_path / "index") as index, machine_with(index.url), Sandbox(store=tmp_path / "store") as engine:
        publish(index.folder, "moving", "1.0")
        engine.lock(requirements=["moving"])
        publish_files(index.folder, "moving", {"moving.py": "VERSION = 'another'\n"})
        for _ in range(2):
            assert "sandbox env lock --refresh" in str(refusal_of(engine, "moving").remedy)
        engine.lock(requirements=["moving"], refresh=True)
        assert engine.run(version_of("moving", "moving")).value == "another"


@pytest.mark.parametrize("moment", BROKEN_AT)
def test_a_source_that_cannot_be_built_is_not_built_for_every_caller(moment: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('description = "for tests"\n[supply]\nsdists = true\n')
    name = make_source(tmp_path, "failing", BROKEN + BROKEN_AT[moment], is_dynamic="asked" in moment)
    with (
        machine_with(None, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path)),
        _watched(tmp_path / "store") as watched,
    ):
        first = refusal_of(watched.engine, name, policy=str(policy))
        assert "resolve" in watched.stages()
        again = refusal_of(watched.engine, name, policy=str(policy))
        assert "resolve" not in watched.stages()
    assert "a moment ago" in str(again)
    assert isinstance(first, BuildFailed)
    assert "without files or network of the host" in first.message
    assert "no such compiler: cc" in first.message
    assert "FileNotFoundError" in first.message or "PermissionError" in first.message
    (log,) = Store(tmp_path / "store").logs.iterdir()
    assert str(log) in (first.remedy or "")
    assert "RuntimeError: no such compiler: cc\n" in f"{log.read_text()}\n"


@pytest.mark.parametrize("stage", ["resolving", "downloading", "compiling"])
def test_ctrl_c_during_a_build_is_one_line_and_is_not_remembered(stage: str, wheels: Path, tmp_path: Path) -> None:
    words = ["env", "build", "small", "--store", str(tmp_path)]
    with LocalIndex(wheels) as index, machine_with(index.url):
        index.tells_metadata = True
        index.drips = {"resolving": "/simple/", "downloading": "/files/small-1.0-py3-none-any.whl"}.get(stage)
        with _at_a_terminal(*words) as process:
            assert process.stderr is not None
            while not (said := process.stderr.readline()).startswith(stage):
                assert said, f"it ended before it came to {stage}"
            os.killpg(process.pid, signal.SIGINT)
            _, rest = process.communicate(timeout=60)
        index.drips = None
        again = command(*words)
    assert process.returncode == 130
    assert rest.splitlines()[-1] == "error: cancelled: what was under way was ended"
    assert "Traceback" not in rest
    assert again.returncode == 0, again.stderr
    assert list((tmp_path / "building").iterdir()) == []


def _at_a_terminal(*words: str) -> subprocess.Popen[str]:
    """Start a command that leads its own process group, so that a terminal's signals reach all of its children."""
    return subprocess.Popen(
        [*COMMAND, *words],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_box_that_is_killed_from_outside_is_held_against_no_package(wheels: Path, tmp_path: Path) -> None:
    with LocalIndex(wheels) as index, machine_with(index.url), Sandbox(store=tmp_path) as engine:
        index.tells_metadata, index.drips = True, "/files/small-1.0-py3-none-any.whl"
        with ThreadPoolExecutor(1) as threads:
            refused = threads.submit(refusal_of, engine, "small")
            assert wait_until(lambda: any("/files/" in asked for asked in index.asked) or refused.done())
            assert wait_until(lambda: len(zygotes()) == 1)
            zygotes()[0].kill()
            index.drips = None
            assert not isinstance(refused.result(), BuildFailed)
        assert "was lost" in refused.result().message
        assert engine.run(version_of("small", "small")).value == "1.0"


def test_an_abandoned_build_is_ended(wheels: Path, tmp_path: Path) -> None:
    with LocalIndex(wheels) as index, machine_with(index.url):
        index.tells_metadata, index.drips = True, "/files/small-1.0-py3-none-any.whl"
        asyncio.run(_cancelled_and_run_again(index, tmp_path))


async def _cancelled_and_run_again(index: LocalIndex, store: Path) -> None:
    downloading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(event: Progress) -> None:
        if event.stage == "download":
            loop.call_soon_threadsafe(downloading.set)

    async with AsyncSandbox(store=store, on_progress=tell) as engine:
        callers = [asyncio.create_task(engine.run(version_of("small", "small"))) for _ in range(2)]
        await asyncio.wait_for(downloading.wait(), 60)
        callers[0].cancel()
        await asyncio.wait(callers[:1])
        assert not callers[1].done(), "the other still waits for it"
        callers[1].cancel()
        await asyncio.wait(callers)
        assert list(Store(store).building.iterdir()) == []
        index.drips = None
        assert (await engine.run(version_of("small", "small"))).value == "1.0"
