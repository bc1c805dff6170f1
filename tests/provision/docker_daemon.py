"""A Docker Engine of the tests' own: started when the first test asks, gone with the run.

By hand, until Ctrl-C::

    python3 -m tests.provision.docker_daemon        # prints what to put into DOCKER_HOST

The engine shares nothing with another one of the machine: everything lies in one folder, also the socket, and the
containers' control groups have a parent of their own::

    /var/tmp/sandbox-run-docker-<random>/
        control-group   the name of the group that all its containers' groups are in
        daemon.json     its runtimes
        docker.sock     docker.pid     log
        data/   exec/

The daemon lives in a mount namespace of its own. Its mounts therefore disturb no other process and go with it; a
containerd that the system runs is hidden, since dockerd would use that; and so is the version 2 half of a hybrid
control group hierarchy, for which crun gives up. Networks are left out, as containers have none here: no bridge, no
iptables.

The daemon gets SIGTERM when the process that started it dies, and ends its containers then. The next run removes what a
killed run leaves all the same: see `earlier_runs`.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError, debian, earlier_runs
from tests.provision.earlier_runs import start_time

PROGRAMS: Final = ("dockerd", "debootstrap", "runsc", "crun", "ps")
HOME: Final = "/var/tmp"
_KIND: Final = "docker-"
_GROUP: Final = "control-group"
_START_SECONDS: Final = 180.0
_END_SECONDS: Final = 90.0

# gVisor's KVM platform hangs inside virtual machines. Unlike the usual advice its control groups are not ignored: with
# `--ignore-cgroups` no limit on memory, processes or processor time holds, which `runsc-unlimited` is there to show.
_RUNTIMES: Final = {
    "crun": [],
    "runsc": ["--network=none", "--platform=ptrace"],
    "runsc-unlimited": ["--network=none", "--platform=ptrace", "--ignore-cgroups"],
}
_APART: Final = ("unshare", "--mount", "--propagation", "slave")
_ENTER: Final = """
mkdir -p /run/containerd && mount -t tmpfs -o mode=0755 tmpfs /run/containerd
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
exec setpriv --pdeathsig TERM dockerd "$@"
"""


@dataclass(slots=True)
class Daemon:
    """A daemon that can be stopped and started again, with all it has kept."""

    folder: Path
    arguments: Sequence[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The value of DOCKER_HOST."""
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = _start(self.folder, self.arguments)
        _wait_until_it_answers(self.process, self.folder)

    def stop(self) -> None:
        """End it, and its containers."""
        if self.process is not None:
            _end(self.process)
            self.process = None

    def kill(self) -> None:
        """Kill it, so that its containers live on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None
        _forget_containerd(self.folder / "exec" / "containerd" / "containerd.pid")


def _forget_containerd(number: Path) -> None:
    """Remove the file of the daemon's containerd, which dies with it: the next daemon would take a zombie for alive."""
    process, deadline = int(number.read_text()), time.monotonic() + _END_SECONDS
    while start_time(process):
        if time.monotonic() > deadline:
            raise ProvisionError(f"the containerd of a daemon that was killed, process {process}, lives on")
        time.sleep(0.02)
    number.unlink()


@contextmanager
def started(*arguments: str) -> Iterator[Daemon]:
    """Run a daemon that lives no longer than the block; further arguments are dockerd's own."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ProvisionError("A Docker daemon of the tests' own needs root on Linux; run the tests as root there.")
    debian.require(*PROGRAMS)
    remove_abandoned()
    with earlier_runs.folder_of_the_run(_KIND, within=HOME, remove=_remove) as folder:
        (folder / _GROUP).write_text(_new_group_name(folder))
        daemon = Daemon(folder, arguments)
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.stop()


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """Run a daemon for as long as the block, and yield its url."""
    with started(*arguments) as daemon:
        yield daemon.url


def _start(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    settings = {"runtimes": {name: _runtime(name, flags) for name, flags in _RUNTIMES.items()}}
    (folder / "daemon.json").write_text(json.dumps(settings, indent=2))
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*_APART, "sh", "-ec", _ENTER, "dockerd", *_options(folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(folder)},  # for the stacks of a containerd that is slow to end
            start_new_session=True,  # an interrupted run still has containers to remove
        )


def _runtime(name: str, flags: list[str]) -> dict[str, object]:
    return {"path": shutil.which(name.partition("-")[0]), "runtimeArgs": flags}


def _options(folder: Path) -> list[str]:
    return [
        f"--config-file={folder}/daemon.json",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/docker.pid",
        f"--host=unix://{folder}/docker.sock",
        f"--cgroup-parent=/{_group_name(folder)}",
        "--exec-opt=native.cgroupdriver=cgroupfs",
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--shutdown-timeout=1",
    ]


def _group_name(folder: Path) -> str:
    return (folder / _GROUP).read_text()


def _new_group_name(folder: Path) -> str:
    """Return a name such as engines use, so that `tests/leaks.py` finds what a killed run left; no two are the same."""
    return f"sandbox-{os.getpid()}-{start_time(os.getpid())}-{folder.name.rpartition('-')[2]}"


def _wait_until_it_answers(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(folder / "docker.sock"):
        if daemon.poll() is not None or time.monotonic() > deadline:
            said = (folder / "log").read_text(errors="replace")[-2000:]
            raise ProvisionError(f"dockerd does not start here; it said:\n{said}")
        time.sleep(0.02)


def _answers(path: Path) -> bool:
    connection = http.client.HTTPConnection("localhost", timeout=5)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request("GET", "/_ping")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def remove_abandoned() -> list[Path]:
    """Remove what daemons of killed runs left, and return the folders that could not be removed."""
    return earlier_runs.remove_leftovers(_KIND, within=HOME, remove=_remove)


def _remove(folder: Path) -> None:
    """End what still runs, such as the containers of a daemon that was killed, and remove the folder."""
    earlier_runs.remove_with_processes(folder, control_groups(folder))


def control_groups(folder: Path) -> list[Path]:
    """Return the control groups of its containers, each before the one it is in."""
    with suppress(OSError):
        return earlier_runs.control_groups(_group_name(folder))
    return []


def main() -> None:
    """Run one until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), running() as url:
        print(url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
