"""Several processes share a run, each with whole modules of tests: most tests wait rather than compute.

pytest-xdist hands the modules out. Whatever tests share lives in one process: its engines, its Docker daemon, its
temporary directory, and, so that a file system mounted for one test is in no other's way, its mounts. What takes long
to make and is only read, they have together, in `folder_of_the_run`: the first who wants it makes it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from filelock import FileLock

_CLONE_NEWNS: Final = 0x20000
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
    if sys.platform == "linux" and os.geteuid() == 0:
        _take_mounts_apart()


def _take_mounts_apart() -> None:
    """What is mounted from here on is seen by this process and by what it starts. A root who may not do this may not
    mount anything either."""
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNS) == 0:
        libc.mount(b"none", b"/", None, _MS_REC_SLAVE, None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Each process is told of the same folder, which is made with the first of them."""
    kept = node.config.stash
    if _KEPT_FOLDER not in kept:
        kept[_KEPT_FOLDER] = _make_folder()
    node.workerinput[_FOLDER] = str(kept[_KEPT_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_KEPT_FOLDER, None):
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def folder_of_the_run(request: pytest.FixtureRequest) -> Iterator[Path]:
    """One for all processes that share the run, for every user to read; gone with the run."""
    if is_worker(request.config):
        yield Path(_given_to_worker(request.config)[_FOLDER])
        return
    folder = _make_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _given_to_worker(config: pytest.Config) -> Mapping[str, str]:
    """What the process that shares the run out has told this one, in an attribute that xdist adds."""
    given: Mapping[str, str] = vars(config)["workerinput"]
    return given


def _make_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sandbox-tests-"))
    folder.chmod(0o755)
    return folder


def make_own_folder(config: pytest.Config) -> Path:
    """One for this process alone. A part of a run has it in the run's, which is gone also when the run is interrupted:
    its parts are killed then, wherever they are."""
    if not is_worker(config):
        return Path(tempfile.mkdtemp(prefix="sandbox-tests-"))
    given = _given_to_worker(config)
    folder = Path(given[_FOLDER], given["workerid"])
    folder.mkdir()
    return folder


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """That folder with what is made in it by the first who wants it, while the others wait."""
    is_made = Path(f"{folder}.made")
    with FileLock(f"{folder}.lock"):
        if not is_made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # who made it before failed
            folder.mkdir()
            folder.chmod(0o755)
            make(folder)
            is_made.touch()
    return folder


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules that may take longest are handed out first, so that at the end nobody waits for one of them."""
    if is_worker(config):
        seconds: Counter[Path] = Counter()
        for item in items:
            seconds[item.path] += _expected_seconds(item)
        items.sort(key=lambda item: -seconds[item.path])


def _expected_seconds(item: pytest.Item) -> int:
    """A tenth of what the test is allowed, where it says that it needs more than others."""
    timeout = item.get_closest_marker("timeout")
    if timeout is not None and timeout.args:
        return int(timeout.args[0]) // 10
    return int(item.get_closest_marker("slow") is not None)
