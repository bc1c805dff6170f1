"""System packages, where taking them is ours to decide: in CI, as root, on a machine that has apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

from tests.provision import ProvisionError, is_in_ci


def can_install() -> bool:
    return is_in_ci() and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str, instead: str) -> None:
    """Install the packages, or raise `ProvisionError` that tells the reader what to do instead."""
    if not can_install():
        raise ProvisionError(f"Missing on this machine: {', '.join(packages)}; {instead}.")
    _refresh_index()
    _apt_get("install", "--yes", "--no-install-recommends", *packages)


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
