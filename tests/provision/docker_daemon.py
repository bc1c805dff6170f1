"""A Docker Engine of the tests' own: started when the first test asks, gone with the run.

By hand, for as long as it is not interrupted::

    python3 -m tests.provision.docker_daemon        # prints what to put into DOCKER_HOST

It shares nothing with an engine that the machine may run besides: everything of it lies in one folder, it is reached
by one socket there, and its containers' control groups have a parent of their own::

    /var/tmp/sandbox-tests-docker-<random>/
        owner           the daemon's process, when that started, and the containers' control group
        daemon.json     its runtimes
        docker.sock     docker.pid     log
        data/   exec/

It lives in a mount namespace of its own. What it mounts is therefore in nobody's way and goes with it; a containerd
that the system runs is hidden, since dockerd would use that; and so is the version 2 half of a hybrid control group
hierarchy, for which crun gives up. Networks are left out, as containers have none here: no bridge, no iptables.

The daemon gets SIGTERM when the process that started it dies, and ends its containers then. What a run that was killed
leaves all the same, the next start removes: a folder of ours whose daemon is not that process any more.
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
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError, debian

_NEEDED: Final = {"dockerd": "docker.io", "debootstrap": "debootstrap", "runsc": "runsc", "crun": "crun"}
_HOME: Final = Path("/var/tmp")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "sandbox-tests-docker-"
_START_SECONDS: Final = 180.0
_END_SECONDS: Final = 90.0
_START_TIME: Final = 19  # in /proc/<pid>/stat, counted from behind the program's name

# gVisor's KVM platform hangs inside virtual machines. Unlike the usual advice its control groups are not ignored: with
# `--ignore-cgroups` no limit on memory, processes or processor time holds, which `runsc-unlimited` is there to show.
_RUNTIMES: Final = {
    "crun": [],
    "runsc": ["--network=none", "--platform=ptrace"],
    "runsc-unlimited": ["--network=none", "--platform=ptrace", "--ignore-cgroups"],
}
_APART: Final = ("unshare", "--mount", "--propagation", "slave")
_ENTER: Final = """
if [ -e /run/containerd ]; then mount -t tmpfs -o mode=0755 tmpfs /run/containerd; fi
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
exec setpriv --pdeathsig TERM dockerd "$@"
"""


@dataclass(slots=True)
class Daemon:
    """One that can be stopped and started again, with all it has kept."""

    folder: Path
    arguments: Sequence[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What to put into DOCKER_HOST."""
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> None:
        """Have it answer."""
        self.process = _start(self.folder, self.arguments)
        _wait_until_it_answers(self.process, self.folder)

    def stop(self) -> None:
        """End it, and its containers. The folder stays ours meanwhile."""
        if self.process is not None:
            _own(self.folder, os.getpid())
            _end(self.process)
            self.process = None

    def kill(self) -> None:
        """Kill it, so that it tells its containers nothing. The folder stays ours meanwhile."""
        assert self.process is not None
        _own(self.folder, os.getpid())
        self.process.kill()
        self.process.wait()
        self.process = None
        _forget_containerd(self.folder / "exec" / "containerd" / "containerd.pid")


def _forget_containerd(number: Path) -> None:
    """The daemon's own dies with it, and where nobody reaps it, the next daemon would take it to be alive."""
    process, deadline = int(number.read_text()), time.monotonic() + _END_SECONDS
    while _started(process):
        if time.monotonic() > deadline:
            raise ProvisionError(f"the containerd of a daemon that was killed, process {process}, lives on")
        time.sleep(0.02)
    number.unlink()


@contextmanager
def started(*arguments: str) -> Iterator[Daemon]:
    """A daemon that lives no longer than the block; further arguments are dockerd's own."""
    _install_what_is_missing()
    remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_HOME))
    daemon = Daemon(folder, arguments)
    try:
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.stop()
    finally:
        _remove(folder)


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """The url of one."""
    with started(*arguments) as daemon:
        yield daemon.url


def _install_what_is_missing() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ProvisionError("A Docker daemon of the tests' own needs root on Linux; run the tests as root there.")
    missing = [package for program, package in _NEEDED.items() if shutil.which(program) is None]
    if missing:
        debian.install(*missing, instead=f"as root: apt-get install {' '.join(missing)}")


def _start(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    settings = {"runtimes": {name: _runtime(name, flags) for name, flags in _RUNTIMES.items()}}
    (folder / "daemon.json").write_text(json.dumps(settings, indent=2))
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [*_APART, "sh", "-ec", _ENTER, "dockerd", *_options(folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(folder)},  # for the stacks of a containerd that is slow to end
            start_new_session=True,  # an interrupted run still has containers to remove
        )
    _own(folder, daemon.pid)
    return daemon


def _own(folder: Path, process: int) -> None:
    (folder / "owner").write_text(f"{process} {_started(process)} {_group_name(folder)}")


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
    """Named as the engine names its own, so that a killed run's is recognised as nobody's; each daemon has another."""
    return f"sandbox-{os.getpid()}-{_started(os.getpid())}-{folder.name.removeprefix(_PREFIX)}"


def _started(process: int) -> str:
    """When it started, in the kernel's own clock; nothing when there is no such process, or only its remains."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[_START_TIME]
    return ""


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


def remove_abandoned() -> None:
    """Remove what daemons of ours left whose run was killed."""
    for folder in _HOME.glob(f"{_PREFIX}*"):
        if folder.lstat().st_uid == 0 and folder.is_dir() and not folder.is_symlink() and not _is_alive(folder):
            _remove(folder)


def _is_alive(folder: Path) -> bool:
    try:
        process, started, _ = (folder / "owner").read_text().split()
    except (OSError, ValueError):
        return time.time() - folder.stat().st_mtime < _START_SECONDS  # somebody is just starting it
    return _started(int(process)) == started


def _remove(folder: Path) -> None:
    """End what still runs, such as the containers of a daemon that was killed, and remove the folder."""
    groups = control_groups(folder)
    while left := [*_members(groups), *_processes_naming(folder)]:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    for group in groups:
        with suppress(OSError):  # another run may be as quick
            group.rmdir()
    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def control_groups(folder: Path) -> list[Path]:
    """The control groups of its containers, each before the one it is in."""
    with suppress(OSError, ValueError):
        name = (folder / "owner").read_text().split()[2]
        parents = [*_CGROUPS.glob(name), *_CGROUPS.glob(f"*/{name}")]
        return [Path(below) for parent in parents for below, _, _ in os.walk(parent, topdown=False)]
    return []


def _members(groups: list[Path]) -> Iterator[int]:
    for group in groups:
        with suppress(OSError):
            yield from map(int, (group / "cgroup.procs").read_text().split())


def _processes_naming(folder: Path) -> Iterator[int]:
    """The daemon's own, such as shims: the folder is in their command line. A zombie has none."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if bytes(folder) + b"/" in Path("/proc", process, "cmdline").read_bytes():
                yield int(process)


def main() -> None:
    """Run one until somebody interrupts."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), running() as url:
        print(url, flush=True)  # noqa: T201
        signal.pause()


if __name__ == "__main__":
    main()
