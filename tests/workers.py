"""Several processes share a run, each with whole modules of tests: most tests wait rather than compute.

pytest-xdist hands the modules out. Whatever tests share lives in one process: its engines, its Docker daemon, its
temporary directory, and, so that a file system mounted for one test disturbs no other, its mounts. All processes share
what takes long to make and is only read, in `folder_of_the_run`: the first process that needs it makes it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from filelock import FileLock

from tests.provision import earlier_runs

_CLONE_NEWNS: Final = 0x20000
_PR_SET_PDEATHSIG: Final = 1
_MS_REC_SLAVE: Final = 0x4000 | 0x80000
_FOLDER: Final = "folder of the run"
_KEPT_FOLDER: Final = pytest.StashKey[Path]()


def is_worker(config: pytest.Config) -> bool:
    """Whether this process has a part of the run only."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        return
    # Messages and sockets have room for a path of some length: temporary ones are hardly longer than in a run of one.
    given = Path(config.option.basetemp)
    config.option.basetemp = given.with_name(given.name.removeprefix("popen-gw"))
    if sys.platform == "linux":
        # A process that shares the run dies at once when the process that shares the run out is killed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.geteuid() == 0:
            _take_mounts_apart()


def _take_mounts_apart() -> None:
    """Hide later mounts from other processes. A root user who may not do this may not mount anything either."""
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNS) == 0:
        libc.mount(b"none", b"/", None, _MS_REC_SLAVE, None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each process the same folder, which is made with the first of them."""
    kept = node.config.stash
    if _KEPT_FOLDER not in kept:
        kept[_KEPT_FOLDER], _ = earlier_runs.make_folder()  # stays locked until this process ends
        kept[_KEPT_FOLDER].chmod(0o755)
    node.workerinput[_FOLDER] = str(kept[_KEPT_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_KEPT_FOLDER, None):
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def folder_of_the_run(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Make a folder for all processes that share the run, readable for every user; it is gone with the run."""
    if is_worker(request.config):
        yield Path(_given_to_worker(request.config)[_FOLDER])
        return
    with tempfile.TemporaryDirectory() as folder:  # in the folder of this process, which is locked
        os.chmod(folder, 0o755)
        yield Path(folder)


def _given_to_worker(config: pytest.Config) -> Mapping[str, str]:
    """Return what the process that shares the run out sent to this one, in an attribute that xdist adds."""
    given: Mapping[str, str] = vars(config)["workerinput"]
    return given


def make_own_folder(config: pytest.Config) -> Path:
    """Make a folder for this process alone. The processes that share a run have theirs in the folder of the run, which
    is removed also when the run is interrupted, although they are killed then."""
    if not is_worker(config):
        return earlier_runs.make_folder()[0]
    given = _given_to_worker(config)
    folder = Path(given[_FOLDER], given["workerid"])
    folder.mkdir()
    return folder


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return that folder after the first process made its content; other processes wait for it."""
    is_made = Path(f"{folder}.made")
    with FileLock(f"{folder}.lock"):
        if not is_made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # an earlier attempt failed
            folder.mkdir()
            folder.chmod(0o755)
            make(folder)
            is_made.touch()
    return folder


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hand the longest modules out first, so that no process waits for one of them at the end."""
    if is_worker(config):
        seconds: Counter[Path] = Counter()
        for item in items:
            seconds[item.path] += _expected_seconds(item)
        items.sort(key=lambda item: -seconds[item.path])


def _expected_seconds(item: pytest.Item) -> int:
    """Return a tenth of a test's own timeout, if it has one."""
    timeout = item.get_closest_marker("timeout")
    if timeout is not None and timeout.args:
        return int(timeout.args[0]) // 10
    return int(item.get_closest_marker("slow") is not None)
