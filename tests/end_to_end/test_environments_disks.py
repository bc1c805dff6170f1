"""Disks that are full, small, or elsewhere: a build that finds no room says so, and leaves the store as it was.

Each engine here is a process with a mount namespace of its own, in which a file system in memory, of a size that the
test says, holds the store. Both are gone when the process is.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from tests.checkout import ROOT
from tests.end_to_end.packages import machine_with, publish, publish_files, refusal_of, version_of
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

MIB: Final = 1 << 20
_MOUNTED: Final = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'
_ENGINE: Final = """
import errno, json, os, sys, threading
from pathlib import Path
from sandbox import Sandbox
from sandbox.environments.store.store import Store
from sandbox.errors import SandboxError

folder, steps = Path(sys.argv[1]), json.loads(sys.argv[2])
filler = folder / "filler"
fill_at = None
filling = threading.Lock()  # a download tells from its own thread, and a build may fail before that has filled the disk

def tell(event):
    if event.stage == fill_at and not filler.exists():
        with filling, open(filler, "wb", buffering=0) as file:
            try:
                for size in (1 << 16, 1):
                    while True:
                        file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

told = []
with Sandbox(store=folder / "store", on_progress=tell) as engine:
    for step in steps:
        fill_at = step.pop("fill_at", None)
        try:
            told.append(["value", engine.run(**step).value])
        except SandboxError as error:
            told.append([type(error).__name__, str(error)])
        finally:
            with filling:
                fill_at = None
                filler.unlink(missing_ok=True)
    store = Store(folder / "store")
    building = os.listdir(store.building)
told.append([each.name for each in store.wheels.glob(".partial/*")] + building)
told.append([store.verify(each.key).is_intact for each in store.list()])
told.append(os.stat(folder).st_dev != os.stat("/tmp").st_dev)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIndex]:
    """An index of packages that need much room, each in another way, and of one that needs none."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "small", "1.0")
    noise = random.Random(1).randbytes(12 * MIB).hex()
    publish_files(folder, "noisy", {"noisy/__init__.py": "VERSION = '1.0'\n", "noisy/noise.txt": noise})
    bomb = "0" * (100 * MIB)
    publish_files(folder, "bomb", {"bomb/__init__.py": "VERSION = '1.0'\n", "bomb/bomb.txt": bomb})
    crumbs = {f"crumbs/{number}.txt": "" for number in range(3000)}
    publish_files(folder, "crumbs", {"crumbs/__init__.py": "VERSION = '1.0'\n", **crumbs})
    with LocalIndex(folder) as index, machine_with(index.url):
        yield index


def _on_a_disk(folder: Path, options: str, *steps: dict[str, Any]) -> list[Any]:
    """How these calls end, one after the other, in an engine whose store is on such a disk."""
    engine = [sys.executable, "-c", _ENGINE, str(folder), json.dumps(steps)]
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _MOUNTED, "sh", options, str(folder), *engine],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    *ends, left_behind, intact, is_elsewhere = json.loads(answer.stdout)
    assert left_behind == []
    assert all(intact)
    assert is_elsewhere
    return list(ends)


def _call(name: str, **more: str) -> dict[str, Any]:
    return {"source": version_of(name, name), **more}


@pytest.mark.root
def test_a_store_may_be_on_another_disk_than_temporary_files(index: LocalIndex, tmp_path: Path) -> None:
    assert _on_a_disk(tmp_path, "size=100m", _call("small"), _call("noisy")) == [["value", "1.0"]] * 2


@pytest.mark.root
@pytest.mark.parametrize("stage", ["resolve", "download", "unpack", "compile", "verify", "publish"])
def test_a_disk_that_fills_up_at_any_stage_is_said_to_be_full(stage: str, index: LocalIndex, tmp_path: Path) -> None:
    failed, again = _on_a_disk(tmp_path, "size=100m", _call("noisy", fill_at=stage), _call("noisy"))
    assert failed[0] in ("StoreUnwritable", "ResolutionFailed", "EnvironmentUnavailable"), failed
    assert "room" in failed[1] or "space" in failed[1], failed
    assert again == ["value", "1.0"], (failed, again)


TOO_LARGE: Final = {
    "for its wheel": ("noisy", "size=10m"),
    "for what is in its wheel": ("bomb", "size=60m"),
    "for its number of files": ("crumbs", "size=60m,nr_inodes=2000"),
}


@pytest.mark.root
@pytest.mark.parametrize("way", TOO_LARGE)
def test_a_package_that_does_not_fit_the_disk_is_named(way: str, index: LocalIndex, tmp_path: Path) -> None:
    name, options = TOO_LARGE[way]
    failed, other = _on_a_disk(tmp_path, options, _call(name), _call("small"))
    assert failed[0] == "StoreUnwritable", failed
    assert "room" in failed[1] or "space" in failed[1], failed
    assert other == ["value", "1.0"]


def test_a_package_larger_than_the_policy_lets_a_build_leave_is_refused(index: LocalIndex, tmp_path: Path) -> None:
    policy = tmp_path / "small.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\nbuild_disk = "20MiB"\n')
    with Sandbox(store=tmp_path / "store", policy=str(policy)) as engine:
        for name in ("bomb", "noisy"):
            refusal = refusal_of(engine, name)
            assert "20" in refusal.message
            assert "MiB" in refusal.message
        assert engine.run(version_of("small", "small")).value == "1.0"
    assert list((tmp_path / "store" / "building").iterdir()) == []
    assert len(list((tmp_path / "store" / "packages").iterdir())) == 1


_FULL: Final = """
import sys
from pathlib import Path
from sandbox.environments.disk.paths import writing
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.interpreters.skeleton import make_skeleton
from sandbox.environments.resolution.built_wheels import take_wheel
from sandbox.errors import SandboxError

way, disk, wheels = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
(disk / "wheels").mkdir()
try:
    with writing("the environment"):
        if way == "skeleton":
            make_skeleton(own_interpreter(), kept_in=disk / "kept", folder=disk / "content")
        else:
            take_wheel(wheels, name="noisy", version="1.0", interpreter=own_interpreter(), wheels=disk / "wheels")
except SandboxError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.root
@pytest.mark.parametrize("way", ["skeleton", "wheel that was built"])
def test_a_build_on_a_full_disk_blames_the_disk_and_is_not_remembered(way: str, tmp_path: Path) -> None:
    """The engine does not remember a `StoreUnwritable`, see above."""
    disk, wheels = tmp_path / "disk", tmp_path / "wheels"
    disk.mkdir()
    publish_files(wheels, "noisy", {"noisy.py": f"NOISE = {random.Random(1).randbytes(MIB).hex()!r}"})
    engine = [sys.executable, "-c", _FULL, way, str(disk), str(wheels)]
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _MOUNTED, "sh", "size=64k,nr_inodes=12", str(disk), *engine],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert answer.stdout.startswith("StoreUnwritable "), answer
