"""Podman's compatible service of the tests' own: its images, containers and socket lie in one folder, and go with it.

    /var/tmp/sandbox-run-podman-<random>/
        podman.sock   containers.conf   log
        images/   run/   tmp/
        crun/      what crun knows of each container

As `docker_daemon`, the service lives in a mount namespace of its own, without the version 2 half of a hybrid control
group hierarchy. Podman gives a container without limits on open files and processes limits of a million, which a
machine may be unable to raise to; the settings below are lower. The next run removes what a killed run leaves: see
`earlier_runs`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError, debian, earlier_runs

PROGRAMS: Final = ("podman", "catatonit", "crun")
HOME: Final = "/var/tmp"
_KIND: Final = "podman-"
_CONTAINERS: Final = ("crun", "images/overlay-containers")
_PATIENCE_S: Final = 180.0
_SETTINGS: Final = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
lock_type = "file"
"""
_APART: Final = ("unshare", "--mount", "--propagation", "slave")
_ENTER: Final = """
mkdir -p crun /run/crun && mount --bind crun /run/crun
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
exec setpriv --pdeathsig TERM podman "$@"
"""


@contextmanager
def running() -> Iterator[str]:
    """Run a service for as long as the block, and yield its url."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ProvisionError("A Podman of the tests' own needs root on Linux; run the tests as root there.")
    debian.require(*PROGRAMS)
    remove_abandoned()
    with earlier_runs.folder_of_the_run(_KIND, within=HOME, remove=_remove) as folder:
        (folder / "containers.conf").write_text(_SETTINGS)
        service = _start(folder)
        try:
            _wait_until_it_answers(service, folder)
            yield f"unix://{folder}/podman.sock"
        finally:
            service.terminate()
            service.wait()


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


def remove_abandoned() -> list[Path]:
    """Remove what services of killed runs left, and return the folders that could not be removed."""
    return earlier_runs.remove_leftovers(_KIND, within=HOME, remove=_remove)


def _remove(folder: Path) -> None:
    """Remove the folder with what still runs of it, such as containers and their monitors."""
    containers = {
        entry.name for known in ("crun", "images/overlay-containers") for entry in (folder / known).glob("*/")
    }
    groups = [group for name in containers for group in earlier_runs.control_groups(f"libpod_parent/libpod-{name}")]
    earlier_runs.remove_with_processes(folder, groups)
    for group in earlier_runs.control_groups("libpod_parent"):
        with suppress(OSError):  # containers of another Podman are in it
            group.rmdir()
