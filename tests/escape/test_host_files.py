"""Attack: read files of the host: homes, secrets, the checkout, other processes' environments, whatever a tree of
mounts that was moved aside may have left behind, by every name under which they might still be reached.

A file that the test itself has put on the host, readable by everybody, stands for all that a user may have there: only
its absence from the box keeps it from the tool.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine

SECRET: Final = "the host's own secret"
READ: Final = f"""{ATTEMPT}
WAYS = ["", "/proc/self/root", "/proc/1/root", "/proc/thread-self/root", "/proc/self/cwd/..", "/proc/1/cwd/..",
        "/.host", "/.old_root", "/oldroot", "/host", "/mnt", "/tmp/.host", "/work/..", "/work/../.host", "/..",
        "/../..", "/dev/fd/0/../../..", "/proc/self/fd/0/../..", "/proc/self/task/1/root", "/dev/shm/../.."]

def read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))

def tool(paths: list) -> list:
    return [way + path for way in WAYS for path in paths if attempt(read, way + path) == "done"]
"""


def _readable_folders() -> list[Path]:
    """Places on the host that every user may look into, of kinds that a box might show by mistake."""
    return [Path("/var/lib"), Path("/srv"), Path("/opt"), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]


@pytest.fixture(scope="module")
def secrets() -> Iterator[list[str]]:
    """Files that everybody on the host can read."""
    made = []
    try:
        for folder in [*_readable_folders(), Path.home()]:
            if os.access(folder, os.W_OK):
                descriptor, name = tempfile.mkstemp(prefix="sandbox-escape-", dir=folder)
                made.append(name)
                os.write(descriptor, SECRET.encode())
                os.fchmod(descriptor, 0o644)
                os.close(descriptor)
        assert len(made) > 2, "there is nowhere to put a secret: this test can tell nothing"
        yield made
    finally:
        for name in made:
            os.unlink(name)


def test_no_file_of_the_host_is_reached_by_any_name(engine: Engine, secrets: list[str]) -> None:
    known = ["/etc/shadow", "/etc/machine-id", "/var/log", "/run", "/boot", "/sys", str(ROOT), __file__]
    known += [f"/proc/{os.getpid()}/environ", f"/proc/{os.getpid()}/root", f"/proc/{os.getppid()}/cmdline"]
    opened = engine.value(READ, {"paths": [*secrets, *known, "/etc/passwd"]})
    assert "/etc/passwd" in opened  # the box's own: the attack does find what is there
    assert [path for path in opened if not path.endswith("/etc/passwd")] == []


PASSWORDS: Final = "def tool() -> str:\n    return open('/etc/passwd').read() + open('/etc/group').read()\n"


def test_the_users_of_the_host_are_hidden(engine: Engine) -> None:
    users = {line.partition(":")[0] for line in Path("/etc/passwd").read_text().splitlines()}
    told = {line.partition(":")[0] for line in engine.value(PASSWORDS).splitlines()}
    assert told == {"root", "tool"}
    assert len(users) > len(told)


HOME: Final = """
import os

def tool(folders: list) -> dict:
    return {folder: sorted(os.listdir(folder)) for folder in folders if os.path.isdir(folder)}
"""


def test_of_a_home_only_the_way_to_the_interpreter_is_shown(ours: Engine) -> None:
    """If the interpreter lies in a home folder, the box creates the parent folders again, with nothing else in them."""
    interpreter = Path(os.path.realpath(sys.base_prefix))
    above = [str(folder) for folder in interpreter.parents if str(folder) not in ("/", "/usr")]
    shown = ours.value(HOME, {"folders": [*above, str(Path.home()), "/home", "/var", "/etc/ssl"]})
    for folder in [str(Path.home()), *above]:
        assert set(shown.pop(folder, [])) <= set(interpreter.parts)
    assert shown == {"/var": ["tmp"], "/etc/ssl": ["certs"]}


MOUNTS: Final = "def tool() -> str:\n    return open('/proc/self/mountinfo').read()\n"


def test_nothing_of_the_hosts_tree_of_mounts_is_left_behind(engine: Engine) -> None:
    """The old root is gone, and no mount shows the root of a file system of the host."""
    mounts = [line.split() for line in engine.value(MOUNTS).splitlines()]
    points = [mount[4] for mount in mounts]
    assert [point for point in points if ".host" in point] == []
    ours = {"/", "/work", "/proc"}
    own_kinds = {"tmpfs", "proc"}
    from_the_root = {mount[4] for mount in mounts if mount[3] == "/" and mount[mount.index("-") + 1] not in own_kinds}
    assert from_the_root == set()
    assert ours <= set(points)


OTHERS: Final = f"""{ATTEMPT}
FILES = ["environ", "mem", "maps", "smaps", "auxv", "fd", "fdinfo", "map_files", "pagemap", "io", "stack", "syscall",
         "personality", "ns", "cwd/", "root/", "exe"]

def read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))

def tool() -> list:
    pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    paths = [f"/proc/{{pid}}/{{file}}" for pid in pids for file in FILES]
    return [pids, [path for path in paths if attempt(read, path) == "done"]]
"""


def test_of_other_processes_nothing_is_open_to_the_tool(engine: Engine) -> None:
    """The only other process there is, the guard, can be seen; what it holds cannot."""
    assert engine.value(OTHERS) == [["1"], []]


TELLTALES: Final = """
import os

def tool() -> str:
    told = [" ".join(os.uname()), " ".join(os.environ.values())]
    for pid in ("self", "1"):
        for file in ("cmdline", "cgroup", "comm", "mountinfo", "cpuset"):
            with open(f"/proc/{pid}/{file}", errors="replace") as text:
                told.append(text.read())
    return "\\n".join(told)
"""


def test_the_place_of_the_engine_is_hidden_from_the_tool(ours: Engine) -> None:
    """A tool that broke out would first need the engine's process, control groups and folder."""
    told = ours.value(TELLTALES)
    secrets = {"process": f"-{os.getpid()}-", "folder": str(ROOT)}
    assert [what for what, secret in secrets.items() if secret in told] == []
