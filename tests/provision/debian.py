"""System packages, where taking them is ours to decide: in CI, as root, on a machine that has apt-get.

Only one of the processes that share a run asks apt-get at a time; it does not wait for another by itself.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tests.provision import ProvisionError, is_in_ci


def can_install() -> bool:
    return is_in_ci() and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str, instead: str) -> None:
    """Install the packages, or raise `ProvisionError` that tells the reader what to do instead."""
    if not can_install():
        raise ProvisionError(f"Missing on this machine: {', '.join(packages)}; {instead}.")
    with _alone():
        _refresh_index()
        _apt_get("install", "--yes", "--no-install-recommends", *packages)


@contextmanager
def _alone() -> Iterator[None]:
    with open(__file__) as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


@cache
def _refresh_index() -> None:
    _apt_get("update")


def _apt_get(*arguments: str) -> None:
    answer = subprocess.run(
        ["apt-get", "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise ProvisionError(f"apt-get {' '.join(arguments)} failed: {answer.stderr.strip()[-2000:]}")
