"""Attack: use what came along: open descriptors, variables, the host's name, capabilities, programs that change the
user, core dumps, the terminal that the engine was started from.
"""

from __future__ import annotations

import pwd
import socket
import stat
from typing import Final

import pytest

from sandbox import Sandbox, Status
from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine

DESCRIPTORS: Final = """
import os, stat

def tool() -> dict:
    found = {}
    for number in range(4096):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        target = os.readlink(f"/proc/self/fd/{number}")
        found[number] = [stat.S_IFMT(status.st_mode), target, os.get_inheritable(number)]
    return found
"""


def test_only_its_own_pipes_are_open(engine: Engine) -> None:
    """Input is empty, output and errors are pipes, and so is the one for the value, which no program it starts gets."""
    found = engine.value(DESCRIPTORS)
    assert found.pop("0")[1] == "/dev/null"
    assert [kind for kind, _, _ in found.values()] == [stat.S_IFIFO] * 3
    inherited = {number for number, (_, _, is_inheritable) in found.items() if is_inheritable}
    assert inherited == {"1", "2"}
    assert len({target for _, target, _ in found.values()}) == 3


ENVIRONMENT: Final = """
import os, subprocess

def tool() -> dict:
    return {"python": dict(os.environ), "first": open("/proc/self/environ").read(),
            "program": subprocess.run(["env"], capture_output=True, text=True).stdout}
"""


@pytest.mark.slow
def test_no_variable_of_the_host_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the environment, and not in what the kernel remembers of the process's start."""
    monkeypatch.setenv("SANDBOX_ESCAPE_SECRET", "variable-of-the-host")
    with Sandbox() as sandbox:
        outcome = sandbox.run(ENVIRONMENT)
    assert outcome.status is Status.OK, outcome.error
    assert "ESCAPE_SECRET" not in str(outcome.value)
    assert isinstance(outcome.value, dict)
    known = {"PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME", "NO_COLOR", "PYTHONUNBUFFERED", "PYTHON_CPU_COUNT"}
    given = set(dict(outcome.value["python"]))  # type: ignore[arg-type]
    assert {name for name in given - known if not name.endswith("_NUM_THREADS")} == {"SANDBOX_CALL_ID", "SANDBOX_TOOL"}


NAMES: Final = f"""{ATTEMPT}
import socket

def tool() -> dict:
    with open("/proc/sys/kernel/hostname") as name:
        names = [socket.gethostname(), os.uname().nodename, name.read().strip()]
    return {{"names": names, "domain": os.uname()[1:2], "rename": attempt(socket.sethostname, "attack")}}
"""


def test_the_name_of_the_host_is_hidden(engine: Engine) -> None:
    before = socket.gethostname()
    answer = engine.value(NAMES)
    assert answer["names"] == ["sandbox"] * 3
    assert answer["rename"] == "EPERM"
    assert socket.gethostname() == before


RIGHTS: Final = f"""{ATTEMPT}
import subprocess

def fields(text: str) -> dict:
    return dict(line.split(":\\t", 1) for line in text.splitlines() if ":\\t" in line)

def tool() -> list:
    own = open("/proc/self/status").read()
    started = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    shell = subprocess.run(["sh", "-pc", "cat /proc/self/status"], capture_output=True, text=True).stdout
    return [fields(text) for text in (own, started, shell)]
"""


def test_no_right_is_held_and_none_is_gained_by_a_program(engine: Engine) -> None:
    for rights in engine.value(RIGHTS):
        assert {rights[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
        assert rights["NoNewPrivs"] == "1"
        assert (rights["Seccomp"], rights["Seccomp_filters"]) == ("2", "2")
        assert rights["Uid"].split() == ["1000"] * 4
        assert rights["Gid"].split() == ["1000"] * 4


@pytest.mark.root
def test_no_right_could_be_gained_as_root_either(ours: Engine) -> None:
    """Where the engine is root, even the set of rights that a program could at most give is empty."""
    assert {rights["CapBnd"] for rights in ours.value(RIGHTS)} == {"0" * 16}


@pytest.mark.root
def test_the_user_of_a_box_owns_nothing_on_the_host(ours: Engine) -> None:
    """No user of the host and no other box has it, so that no file and no counter is shared with anybody."""
    source = "def tool() -> list:\n    return open('/proc/self/uid_map').read().split()\n"
    inside, outside, count = map(int, ours.value(source))
    assert (inside, count) == (1000, 1)
    assert outside > max(user.pw_uid for user in pwd.getpwall())
    with Sandbox() as other:
        assert other.run(source).value != [str(inside), str(outside), str(count)]


USERS: Final = f"""{ATTEMPT}
def tool() -> list:
    ways = {{
        "setuid": lambda: os.setuid(0),
        "setgid": lambda: os.setgid(0),
        "setresuid": lambda: os.setresuid(0, 0, 0),
        "seteuid": lambda: os.seteuid(65534),
        "setgroups": lambda: os.setgroups([0]),
        "initgroups": lambda: os.initgroups("root", 0),
    }}
    return [name for name, way in ways.items() if attempt(way) == "done"]
"""


def test_a_tool_cannot_become_another_user(engine: Engine) -> None:
    assert engine.value(USERS) == []


# A dynamic loader shows the kernel's settings, but never to a program that has changed its user: silence would mean
# that it did.
SETUID: Final = """
import os, stat, subprocess

def tool() -> dict:
    names = [entry.path for entry in os.scandir("/usr/bin") if entry.is_file() and entry.stat().st_mode & stat.S_ISUID]
    told = {}
    for name in names[:3]:
        shows = {"env": {"LD_SHOW_AUXV": "1"}, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        lines = subprocess.run([name, "--version"], **shows).stdout.splitlines()
        lines = [line.split(":") for line in lines if line.startswith("AT_")]
        told[name] = {key: value.strip() for key, value in lines if key in ("AT_SECURE", "AT_EUID", "AT_UID")}
    return told
"""


def test_a_program_that_changes_its_user_does_not(engine: Engine) -> None:
    told = engine.value(SETUID)
    assert told, "there is no such program in /usr/bin: this test can tell nothing"
    assert [
        name for name, said in told.items() if said != {"AT_SECURE": "0", "AT_EUID": "1000", "AT_UID": "1000"}
    ] == []


DUMP: Final = """
import ctypes, os, resource, signal

def tool() -> list:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        ctypes.string_at(0)
    status = os.waitpid(child, 0)[1]
    places = (".", "/tmp", "/dev/shm")
    left = [name for place in places for name in os.listdir(place) if "core" in name]
    return [os.WTERMSIG(status), os.WCOREDUMP(status), left, resource.getrlimit(resource.RLIMIT_CORE)]
"""


def test_a_crash_leaves_no_image_of_its_memory(engine: Engine) -> None:
    """The kernel writes no core of one byte, and unlike with 0 it pipes none to a program of the host."""
    assert engine.value(DUMP) == [11, False, [], [1, 1]]


TERMINAL: Final = f"""{ATTEMPT}
import fcntl, pty

def control(number: int) -> None:
    fcntl.ioctl(0, number, b"x")

def tool() -> dict:
    return {{
        "terminal": attempt(os.open, "/dev/tty", os.O_RDWR),
        "console": attempt(os.open, "/dev/console", os.O_RDWR),
        "new terminal": attempt(pty.openpty),
        "type": attempt(control, 0x5412),
        "paste": attempt(control, 0x541C),
        "session": os.getsid(0) == os.getpid(),
        "is one": [os.isatty(number) for number in range(3)],
    }}
"""


def test_there_is_no_terminal_to_type_into(engine: Engine) -> None:
    """`EPERM` is the filter's word; the kernel would have said that this is no terminal."""
    answers = engine.value(TERMINAL)
    assert (answers.pop("type"), answers.pop("paste")) == ("EPERM", "EPERM")
    assert answers.pop("is one") == [False] * 3
    assert answers.pop("session")
    assert "done" not in answers.values()
