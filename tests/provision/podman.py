"""Podman's compatible service of the tests' own: its images, containers and socket lie in one folder, and go with it.

    /var/tmp/sandbox-tests-podman-<random>/
        podman.sock   containers.conf   log
        images/   run/   tmp/

As `docker_daemon`, it lives in a mount namespace of its own, without the version 2 half of a hybrid control group
hierarchy. A container that is given no limit on open files or processes gets Podman's own, a million, which a machine
may be unable to raise to; so others are set here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError, debian

_NEEDED: Final = {"podman": "podman", "catatonit": "catatonit", "crun": "crun"}
_PREFIX: Final = "sandbox-tests-podman-"
_PATIENCE_S: Final = 180.0
_SETTINGS: Final = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
lock_type = "file"
"""
_APART: Final = ("unshare", "--mount", "--propagation", "slave")
_ENTER: Final = """
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
exec setpriv --pdeathsig TERM podman "$@"
"""


@contextmanager
def running() -> Iterator[str]:
    """The url of one that lives as long as the block."""
    _install_what_is_missing()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/var/tmp"))
    (folder / "containers.conf").write_text(_SETTINGS)
    try:
        service = _start(folder)
        try:
            _wait_until_it_answers(service, folder)
            yield f"unix://{folder}/podman.sock"
        finally:
            service.terminate()
            service.wait()
    finally:
        _remove(folder)


def _install_what_is_missing() -> None:
    if os.geteuid() != 0:
        raise ProvisionError("A Podman of the tests' own needs root on Linux; run the tests as root there.")
    missing = [package for program, package in _NEEDED.items() if shutil.which(program, path=_places()) is None]
    if missing:
        debian.install(*missing, instead=f"as root: apt-get install {' '.join(missing)}")


def _places() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/libexec/podman"


def _start(folder: Path) -> subprocess.Popen[bytes]:
    service = _words(folder, "system", "service", "--time=0", f"unix://{folder}/podman.sock")
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            (*_APART, "sh", "-ec", _ENTER, *service),
            env={**os.environ, "CONTAINERS_CONF": f"{folder}/containers.conf", "TMPDIR": str(folder)},
            cwd=folder,  # where its monitors write notes
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _words(folder: Path, *command: str) -> tuple[str, ...]:
    return (
        "podman",
        *("--root", f"{folder}/images", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp"),
        *("--cgroup-manager", "cgroupfs", "--events-backend", "file"),
        *command,
    )


def _wait_until_it_answers(service: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not (folder / "podman.sock").exists():
        if service.poll() is not None or time.monotonic() > deadline:
            said = (folder / "log").read_text(errors="replace")[-2000:]
            raise ProvisionError(f"podman does not serve here; it said:\n{said}")
        time.sleep(0.02)


def _remove(folder: Path) -> None:
    """With what still runs of it, such as the monitors of containers, and what is still mounted."""
    while left := list(_processes_naming(folder)):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    shutil.rmtree(folder)


def _processes_naming(folder: Path) -> Iterator[int]:
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if bytes(folder) + b"/" in Path("/proc", process, "cmdline").read_bytes():
                yield int(process)
