"""Several processes share a run, each with whole modules of tests: most tests wait rather than compute.

pytest-xdist hands the modules out. Whatever tests share lives in one process: its engines, its Docker daemon, its
temporary directory, and, so that a file system mounted for one test is in no other's way, its mounts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

import pytest

_CLONE_NEWNS: Final = 0x20000
_MS_REC_SLAVE: Final = 0x4000 | 0x80000


def is_worker(config: pytest.Config) -> bool:
    """Whether this process has a part of the run only."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if is_worker(config) and sys.platform == "linux" and os.geteuid() == 0:
        _take_mounts_apart()


def _take_mounts_apart() -> None:
    """What is mounted from here on is seen by this process and by what it starts. A root who may not do this may not
    mount anything either."""
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNS) == 0:
        libc.mount(b"none", b"/", None, _MS_REC_SLAVE, None)
