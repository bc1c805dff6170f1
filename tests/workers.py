"""Several processes share a run, each with whole modules of tests: most tests wait rather than compute.

pytest-xdist hands the modules out. Whatever tests share lives in one process: its engines, its Docker daemon, its
temporary directory, and, so that a file system mounted for one test is in no other's way, its mounts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

_CLONE_NEWNS: Final = 0x20000
_MS_REC_SLAVE: Final = 0x4000 | 0x80000


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
