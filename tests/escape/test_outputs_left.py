"""Attack: leave something among the outputs that makes who collects them read, wait for, or write to something else.

Each attack leaves a plain file, too. The file comes back, the attack is named, and the next call is served.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from sandbox import Outcome
from tests.escape.engines import Engine, engine_of_ours, engine_without_root
from tests.unprivileged import NOBODY

pytestmark = pytest.mark.slow

TOOL: Final = """
import os, socket

def deep(name):
    os.mkdir(name)
    here = os.open(name, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below

def hard(name):
    os.link("good", name)
    os.unlink("good")
    open("good", "w").write("good")
    os.link(name, name + "2")

def many(name):
    os.mkdir(name)
    for number in range(11000):
        open(name + "/%05d" % number, "w").close()

def behind_the_back(name):
    os.rename("../outputs", "../real")
    os.symlink("/etc", "../outputs")

WAYS = {
    "link to a file": lambda name: os.symlink("/etc/passwd", name),
    "link to a folder": lambda name: os.symlink("/etc", name),
    "link to memory": lambda name: os.symlink("/proc/self/mem", name),
    "hard link": hard,
    "pipe": os.mkfifo,
    "socket": lambda name: socket.socket(socket.AF_UNIX).bind(name),
    "sparse": lambda name: os.truncate(os.open(name, os.O_CREAT | os.O_RDWR), 100 << 20),
    "new line": lambda name: open(name + "\\n/../x".replace("/", "_"), "w").close(),
    "terminal": lambda name: open("\\x1b]0;" + name, "w").close(),
    "not utf-8": lambda name: open(name.encode() + b"\\xff\\xfe", "w").close(),
    "deep": deep,
    "many": many,
    "no permission": lambda name: os.mkdir(name, 0),
    "in the way": behind_the_back,
}

def tool(way: str) -> list:
    os.chdir("outputs")
    open("good", "w").write("good")
    WAYS[way]("odd")
    return []
"""
WAYS: Final = (
    "link to a file",
    "link to a folder",
    "link to memory",
    "hard link",
    "pipe",
    "socket",
    "sparse",
    "new line",
    "terminal",
    "not utf-8",
    "deep",
    "no permission",
)
GOES_ON: Final = """
import os, time
def tool() -> int:
    open("outputs/good", "w").write("good")
    for _ in range(20):
        if not os.fork():
            os.setsid()
            while True:
                try:
                    os.rename("outputs/good", "outputs/gone")
                    os.symlink("/etc/passwd", "outputs/good")
                    os.unlink("outputs/good")
                    os.rename("outputs/gone", "outputs/good")
                except OSError:
                    pass
    time.sleep(0.05)
    return os.getpid()
"""
FORGES: Final = """
import os, struct
def tool() -> int:
    record = b'{"name": "../../forged", "bytes": 4}'
    for number in range(3, 64):
        try:
            os.write(number, struct.pack(">IB", len(record) + 1, 1) + record)
        except OSError:
            pass
    return 1
"""

PRETENDS: Final = """
import ctypes, os, struct, time
def tool(calls: int) -> int:
    # that the engine wants its call to end, in every form in which a process can say so
    open("outputs/good", "w").write("good")
    libc = ctypes.CDLL(None)
    parent = os.getppid()
    for code in (0, -1, -6, 0x80):
        told = struct.pack("iiiiii", 15, 0, code, 0, 0, 0).ljust(128, b"\\0")
        libc.syscall(calls, parent, 15, told)
        for _ in range(50):
            try:
                os.kill(parent, 15)
            except OSError:
                pass
    print("went on", flush=True)
    for _ in range(3):
        if not os.fork():
            while True:
                try:
                    os.kill(parent, 15)
                except OSError:
                    pass
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def ours() -> Iterator[Engine]:
    with _artifacts_in_a_folder_of(os.geteuid()), engine_of_ours() as engine:
        yield engine


@pytest.fixture(scope="module")
def without_root(ours: Engine, unprivileged_python: Path) -> Iterator[Engine]:
    """Run the engine with the variable in its environment."""
    with ExitStack() as stack:
        with _artifacts_in_a_folder_of(NOBODY, stack):
            engine = stack.enter_context(engine_without_root(unprivileged_python))
        yield engine


@contextmanager
def _artifacts_in_a_folder_of(user: int, stack: ExitStack | None = None) -> Iterator[None]:
    """Engines that start now keep artifacts in a folder that is gone with the stack, or with this."""
    with ExitStack() as own, pytest.MonkeyPatch.context() as patch:
        folder = (stack or own).enter_context(TemporaryDirectory())
        if os.geteuid() == 0:
            os.chown(folder, user, user)
        patch.setenv("SANDBOX_ARTIFACTS", folder)
        if stack is not None:
            patch.setenv("HOME", folder)  # ours is closed to it
        yield


def names(outcome: Outcome) -> list[str]:
    return [each.name for each in outcome.artifacts]


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_by_name_and_the_rest_is_taken(engine: Engine, way: str) -> None:
    outcome = engine.run(TOOL, {"way": way})
    assert (outcome.status, names(outcome)) == ("ok", ["good"]), outcome.error
    assert [each.bytes for each in outcome.artifacts] == [4]
    assert outcome.refused
    assert all("odd" in each.name for each in outcome.refused)
    assert engine.value("def tool(): return 1") == 1


def test_of_very_many_files_a_bounded_number_is_named(engine: Engine) -> None:
    outcome = engine.run(TOOL, {"way": "many"})
    assert (outcome.status, len(names(outcome))) == ("ok", 100)
    assert "good" in names(outcome)
    assert len(outcome.refused) < 100
    assert len(outcome.to_json()) < 200_000


def test_another_folder_in_its_place_is_refused(engine: Engine) -> None:
    outcome = engine.run(TOOL, {"way": "in the way"})
    assert (outcome.artifacts, [each.reason for each in outcome.refused]) == ((), ["it is a symbolic link"])


def test_processes_that_swap_names_while_it_ends_gain_nothing(engine: Engine) -> None:
    for _ in range(5):
        outcome = engine.run(GOES_ON)
        assert outcome.status == "ok", outcome.error
        assert all(each.bytes == 4 for each in outcome.artifacts)


def test_a_tool_cannot_say_that_it_left_something(engine: Engine) -> None:
    outcome = engine.run(FORGES)
    assert (outcome.artifacts, outcome.refused) == ((), ())


def test_a_tool_cannot_say_that_it_is_to_end_nor_that_it_is_not(engine: Engine) -> None:
    calls = {"x86_64": 129, "aarch64": 138}[os.uname().machine]  # rt_sigqueueinfo
    outcome = engine.run(PRETENDS, {"calls": calls}, limits={"wall": 3})
    assert (outcome.status, outcome.stdout.text) == ("timeout", "went on\n"), outcome.error
    assert engine.value("def tool(): return 1") == 1
