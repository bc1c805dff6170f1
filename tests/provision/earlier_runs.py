"""An earlier run of the tests that was killed leaves processes and folders; the next run ends and removes them.

Every process of a run has the run's mark in its environment. The mark names the front door's process: when that is no
more, the run is over, and whatever still carries the mark is a leftover. A run that is still alive is left alone.

A folder of a run is locked for as long as the process that made it lives, so a folder without a lock is a leftover.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError

MARK: Final = "SANDBOX_TESTS_RUN"
FOLDER_PREFIX: Final = "sandbox-run-"
_RANDOM: Final = "????????"  # appended by `tempfile`
_START_TIME: Final = 19  # in /proc/<pid>/stat, counted from behind the program's name
_CGROUPS: Final = Path("/sys/fs/cgroup")
_KILL_SECONDS: Final = 30.0


def mark_this_run() -> None:
    """Have every process that this one starts from now on carry the mark of this run."""
    os.environ[MARK] = f"{_pid_namespace()}-{os.getpid()}-{start_time(os.getpid())}"


def end_earlier_runs() -> list[str]:
    """Kill the processes of runs that are over, and return the command line of each."""
    names: dict[int, str] = {}

    def find() -> list[int]:
        found = list(_processes_of_ended_runs())
        for process in found:
            names.setdefault(process, command_line(process))
        return found

    with suppress(ProvisionError):  # a process that the kernel cannot end is no reason not to test
        kill_all(find)
    return [f"{process} {name[:200]}" for process, name in names.items()]


def _processes_of_ended_runs() -> Iterator[int]:
    prefix = f"{MARK}={_pid_namespace()}-".encode()
    for process in processes():
        with suppress(OSError, ValueError):
            variables = Path("/proc", str(process), "environ").read_bytes().split(b"\0")
            mark = next((each[len(prefix) :] for each in variables if each.startswith(prefix)), None)
            if mark is not None and process != os.getpid():
                front_door, started = mark.decode().split("-")
                if start_time(int(front_door)) != started:
                    yield process


def _pid_namespace() -> str:
    """Return the number of this process's pid namespace: a mark of another one cannot be judged here."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def processes() -> list[int]:
    """Return every process that can be seen; without a /proc file system, none."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc") else []


def start_time(process: int) -> str:
    """Return when the process started, by the kernel's clock, or nothing if the process ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[_START_TIME]
    return ""


def command_line(process: int) -> str:
    """Return the words of its command, or nothing if the process ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def naming(folder: Path) -> Iterator[int]:
    """Yield the processes that name a file of the folder in their command, such as a daemon's own."""
    for process in processes():
        with suppress(OSError):
            if bytes(folder) + b"/" in Path("/proc", str(process), "cmdline").read_bytes():
                yield process


def kill_all(find: Callable[[], Iterable[int]]) -> None:
    """Kill what `find` finds until it finds nothing: a process may have forked meanwhile."""
    deadline = time.monotonic() + _KILL_SECONDS
    while left := list(find()):
        if time.monotonic() > deadline:
            raise ProvisionError(f"These processes do not die: {', '.join(map(str, left))}. Restart this machine.")
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def lock(folder: Path) -> int | None:
    """Lock the folder for as long as the descriptor that is returned is open; None if another process holds it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid() and folder.exists():
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def make_folder(kind: str = "", *, within: str | None = None) -> tuple[Path, int]:
    """Make a folder of this run, and return it with the descriptor that keeps it locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX + kind, dir=within))
        if (descriptor := lock(folder)) is not None:
            return folder, descriptor
        # Another run took it for a leftover before the lock was there, and removes it.


@contextmanager
def folder_of_the_run(kind: str = "", *, within: str | None = None, remove: Callable[[Path], None]) -> Iterator[Path]:
    """Make a folder, and have `remove` remove it after the block."""
    folder, descriptor = make_folder(kind, within=within)
    try:
        yield folder
    finally:
        try:
            remove(folder)
        finally:
            os.close(descriptor)


def remove_leftovers(kind: str = "", *, within: str | None = None, remove: Callable[[Path], None]) -> list[Path]:
    """Remove the folders of this kind that ended runs left, and return those that could not be removed."""
    kept = []
    for folder in Path(within or tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{kind}{_RANDOM}"):
        if (descriptor := lock(folder)) is None:
            continue
        try:
            remove(folder)
        except (OSError, ProvisionError):
            kept.append(folder)
        finally:
            os.close(descriptor)
    return kept


def remove_abandoned() -> list[Path]:
    """Remove the temporary folders that ended runs left, and return those that could not be removed."""
    return remove_leftovers(remove=remove_folder)


def remove_with_processes(folder: Path, groups: list[Path]) -> None:
    """Remove a daemon's folder, with the processes that name it and with those in these control groups."""
    kill_all(lambda: [*_members(groups), *naming(folder)])
    for group in groups:
        with suppress(OSError):  # another run may have been quicker
            group.rmdir()
    remove_folder(folder)


def control_groups(name: str) -> list[Path]:
    """Return the control groups of that name in all hierarchies and below, each before the one it is in."""
    parents = [*_CGROUPS.glob(name), *_CGROUPS.glob(f"*/{name}")]
    return [Path(below) for parent in parents for below, _, _ in os.walk(parent, topdown=False)]


def _members(groups: list[Path]) -> Iterator[int]:
    for group in groups:
        with suppress(OSError):
            yield from map(int, (group / "cgroup.procs").read_text().split())


def remove_folder(folder: Path) -> None:
    """Remove the folder, but nothing that is mounted in it."""
    for point in reversed(_mount_points_below(folder)):
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)
    if points := _mount_points_below(folder):
        raise ProvisionError(f"{folder} cannot be removed: {points[0]} is mounted. Unmount it.")
    while folder.exists():
        with suppress(FileNotFoundError):  # another run may be removing it too
            shutil.rmtree(folder)


def _mount_points_below(folder: Path) -> list[str]:
    table = Path("/proc/self/mountinfo")
    points = [line.split()[4] for line in table.read_text().splitlines()] if table.exists() else []
    return [point for point in points if Path(point).is_relative_to(folder)]
