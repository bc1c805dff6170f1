"""Attack: change something outside of the call's own workplace: programs and libraries, devices, the kernel's settings,
the tree of mounts, control groups.

On what belongs to the machine, only such acts are tried as would change nothing if they succeeded: opening for writing,
or writing what is there already. All else is tried on a folder that the test has put on the host.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.policy.load import load
from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine
from tests.unprivileged import NOBODY

SHOWN: Final = f"""{ATTEMPT}
def make(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))

IN_A_FOLDER = {{
    "make": lambda folder: make(folder + "/made"),
    "mkdir": lambda folder: os.mkdir(folder + "/folder"),
    "symlink": lambda folder: os.symlink("/", folder + "/symlink"),
    "mkfifo": lambda folder: os.mkfifo(folder + "/fifo"),
    "mode of a folder": lambda folder: os.chmod(folder, 0o700),
    "times of a folder": lambda folder: os.utime(folder),
    "temporary": lambda folder: os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR)),
    "replace": lambda folder: (make("new"), os.rename("new", folder + "/file")),
    "link": lambda folder: os.link(folder + "/file", "linked"),
    "write": lambda folder: os.close(os.open(folder + "/file", os.O_WRONLY)),
    "truncate": lambda folder: os.truncate(folder + "/file", 0),
    "mode": lambda folder: os.chmod(folder + "/file", 0o600),
    "owner": lambda folder: os.chown(folder + "/file", os.getuid(), os.getgid()),
    "times": lambda folder: os.utime(folder + "/file"),
    "attribute": lambda folder: os.setxattr(folder + "/file", "user.attack", b"x"),
    "unlink": lambda folder: os.unlink(folder + "/file"),
    "rename": lambda folder: os.rename(folder, folder + "-renamed"),
}}

def tool(folder: str, is_own: bool) -> list:
    if is_own:
        os.mkdir(folder)
        make(folder + "/file")
    os.stat(folder + "/file")
    return [name for name, act in IN_A_FOLDER.items() if attempt(act, folder) == "done"]
"""


@pytest.fixture
def shown() -> Iterator[Path]:
    """A folder of the host in which everybody may do everything, so that nothing but the walls forbids it."""
    with tempfile.TemporaryDirectory(prefix="sandbox-escape-", dir="/var/lib" if os.geteuid() == 0 else None) as name:
        folder, file = Path(name), Path(name, "file")
        file.write_text("as it was")
        folder.chmod(0o777)
        file.chmod(0o666)
        yield folder


@pytest.mark.root
def test_what_a_policy_shows_of_the_host_cannot_be_changed(engine: Engine, shown: Path) -> None:
    policy = load("default").model_dump(mode="json") | {"filesystem": {"readable": [str(shown)]}}
    before = _described(shown)
    assert engine.value(SHOWN, {"folder": str(shown), "is_own": False}, policy=policy) == []
    assert _described(shown) == before


@pytest.mark.root
def test_what_a_policy_shows_cannot_be_changed_by_its_owner_either(without_root: Engine, shown: Path) -> None:
    """Without root the tool is, to the host, the same user as the engine."""
    for path in (shown, shown / "file"):
        os.chown(path, NOBODY, NOBODY)
    test_what_a_policy_shows_of_the_host_cannot_be_changed(without_root, shown)


def test_in_the_workplace_all_of_that_can_be_done(engine: Engine) -> None:
    """Without which the tests above tell nothing."""
    done = set(engine.value(SHOWN, {"folder": "/work/own", "is_own": True}))
    assert done >= {"make", "mkdir", "symlink", "mkfifo", "mode", "times", "write", "truncate", "temporary", "replace"}
    assert done >= {"link", "unlink", "rename", "mode of a folder", "times of a folder", "owner"}


def _described(folder: Path) -> list[object]:
    found = [(path, path.stat()) for path in (folder, *folder.iterdir())]
    kept = [(path.name, status.st_mode, status.st_uid, status.st_mtime_ns, status.st_size) for path, status in found]
    return [*kept, (folder / "file").read_text(), os.listxattr(folder / "file")]


# The attempts on the machine's own programs would change nothing if they succeeded.
IN_PLACE: Final = f"""{ATTEMPT}
def open_for_writing(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))

def tool(folders: list, files: list) -> list:
    found = [path for path in files if attempt(open_for_writing, path) == "done"]
    for path in (*folders, *files):
        status = os.stat(path)
        found += [path + " mode"] if attempt(os.chmod, path, status.st_mode & 0o7777) == "done" else []
        times = (status.st_atime_ns, status.st_mtime_ns)
        found += [path + " times"] if attempt(lambda: os.utime(path, ns=times)) == "done" else []
    return found + [path for path in folders if attempt(os.mkdir, path + "/sandbox-attack") == "done"]
"""
_LIBRARY: Final = os.path.dirname(os.path.realpath(os.__file__))
FOLDERS: Final = ("/", "/etc", "/etc/ssl/certs", "/usr", "/usr/bin", "/usr/lib", "/lib", "/var", "/dev", "/proc")
FILES: Final = ("/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/usr/bin/env", "/bin/sh")


def test_programs_libraries_and_the_tree_above_them_cannot_be_changed(engine: Engine) -> None:
    assert engine.value(IN_PLACE, {"folders": FOLDERS, "files": FILES}) == []


def test_the_interpreter_cannot_be_changed(ours: Engine) -> None:
    assert ours.value(IN_PLACE, {"folders": [_LIBRARY, sys.base_prefix], "files": [f"{_LIBRARY}/os.py"]}) == []


DEVICES: Final = f"""{ATTEMPT}
def tool(names: list) -> list:
    found = []
    for name in names:
        path = "/dev/" + name
        found += [(name, "touch")] if attempt(os.utime, path) == "done" else []
        found += [(name, "mode")] if attempt(os.chmod, path, 0o666) == "done" else []
        found += [(name, "attribute")] if attempt(os.setxattr, path, "user.attack", b"x") == "done" else []
    return found
"""


def test_the_hosts_device_files_cannot_be_changed(engine: Engine) -> None:
    """Every box shows these files of the host, so a tool that sets a time changes the host and signals other boxes."""
    assert engine.value(DEVICES, {"names": ["null", "zero", "full", "random", "urandom"]}) == []


NODES: Final = f"""{ATTEMPT}
import stat

def make(kind: int, major: int, minor: int) -> None:
    for folder in (".", "/tmp", "/dev/shm", "/dev", "/"):
        path = f"{{folder}}/node"
        answer = attempt(os.mknod, path, kind | 0o666, os.makedev(major, minor))
        if answer == "done":
            made.append(path)

made = []
def tool(numbers: list) -> list:
    for major, minor in numbers:
        make(stat.S_IFCHR, major, minor)
        make(stat.S_IFBLK, major, minor)
    return made
"""
# The memory, the console, a terminal, the kernel's log, a disk, a loop device, FUSE, and the whiteout anybody may make.
NUMBERS: Final = ((1, 1), (1, 3), (5, 1), (5, 0), (1, 11), (8, 0), (254, 0), (7, 0), (10, 229), (0, 0))


def test_no_device_can_be_made(engine: Engine) -> None:
    assert engine.value(NODES, {"numbers": NUMBERS}) == []


DEVICE_FOLDER: Final = "import os\ndef tool() -> list:\n    return sorted(os.listdir('/dev'))\n"


def test_only_harmless_devices_are_there(engine: Engine) -> None:
    harmless = {"null", "full", "random", "urandom", "fd", "shm", "stdin", "stdout", "stderr"}
    assert set(engine.value(DEVICE_FOLDER)) - {"zero"} == harmless  # without a control group there is no "zero"


SETTINGS: Final = f"""{ATTEMPT}
FOREIGN = ("sys", "bus", "fs", "irq", "acpi", "driver", "scsi", "tty", "1", "pressure")

def files() -> list:
    found = []
    for folder, folders, names in os.walk("/proc"):
        if folder == "/proc":
            folders[:] = [name for name in folders if name in FOREIGN]
        found += [folder + "/" + name for name in names]
    return found

def write_back(path: str) -> None:
    # what it says already, if it says anything
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(descriptor, os.pread(descriptor, 4096, 0))
    finally:
        os.close(descriptor)

def open_blindly(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))

def tool() -> dict:
    found = files()
    opened = [path for path in found if not os.access(path, os.R_OK) and attempt(open_blindly, path) == "done"]
    return {{"files": len(found), "written": opened + [path for path in found if attempt(write_back, path) == "done"]}}
"""


def test_no_setting_of_the_kernel_can_be_written(engine: Engine) -> None:
    """Among them core_pattern, which names a program that the host runs, sysrq-trigger, which restarts it, and those of
    the guard's process."""
    answer = engine.value(SETTINGS)
    assert answer["files"] > 500
    assert answer["written"] == []


OWN_ENTRIES: Final = f"""{ATTEMPT}
def write(path: str, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)

def tool() -> list:
    own = {{"uid_map": b"0 0 1", "gid_map": b"0 0 1", "setgroups": b"allow", "loginuid": b"0"}}
    return [name for name, text in own.items() if attempt(write, "/proc/self/" + name, text) == "done"]
"""


def test_a_tool_cannot_map_itself_to_another_user(engine: Engine) -> None:
    assert engine.value(OWN_ENTRIES) == []


TREE: Final = """
import os

def tool() -> dict:
    found = {}
    for line in open("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        found[before.split()[4]] = [after.split()[0], before.split()[5].split(",")]
    return found
"""


def test_only_the_workplace_is_mounted_for_writing(engine: Engine) -> None:
    """And programs that lie there do not run, so that no file of a tool's is ever a program."""
    mounts = engine.value(TREE)
    writable = {point for point, (_, options) in mounts.items() if "rw" in options}
    assert writable - {"/work", "/proc"} <= {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")}
    assert [point for point, (_, options) in mounts.items() if "nosuid" not in options] == []
    assert {"noexec", "nodev", "nosuid"} <= set(mounts["/work"][1])
    assert [point for point, (_, options) in mounts.items() if "nodev" not in options and "/dev/" not in point] == []


GROUPS: Final = """
import os

NAMES = {"release_agent", "notify_on_release", "cgroup.procs", "cgroup.subtree_control", "tasks", "memory.max"}

def tool() -> list:
    kinds = [line.partition(" - ")[2].split()[0] for line in open("/proc/self/mountinfo")]
    found = [kind for kind in kinds if kind in ("cgroup", "cgroup2", "sysfs", "securityfs", "debugfs", "tracefs")]
    tops = [top for top in os.listdir("/") if top not in ("proc", "usr", "lib", "bin", "sbin", "lib64", "lib32")]
    for top in tops:
        found += [name for _, _, names in os.walk("/" + top) for name in NAMES & set(names)]
    return [found, os.path.exists("/sys")]
"""


def test_no_control_group_is_within_reach(engine: Engine) -> None:
    assert engine.value(GROUPS) == [[], False]


PROGRAMS: Final = f"""{ATTEMPT}
import mmap, shutil

def run() -> None:
    os.execv("/work/program", ["program", "-c", "exit 0"])

def map_as_code() -> None:
    with open("/work/program", "rb") as file:
        mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()

def tool() -> list:
    shutil.copy("/bin/sh", "/work/program")
    os.chmod("/work/program", 0o4755)
    return [attempt_apart(run), attempt(map_as_code)]
"""


def test_what_a_tool_writes_is_never_a_program(engine: Engine) -> None:
    assert engine.value(PROGRAMS) == ["EACCES", "EPERM"]
