"""Files that a tool left are sent unchanged, and anything but a plain file is refused, also in a race."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from call import files
from sandbox.outputs.artifacts.receiver import FileRecords, ReceivedFiles
from sandbox.outputs.artifacts.store import ArtifactStore, TenantStore
from sandbox.outputs.artifacts.writer import ArtifactWriter

MIB: Final = 1 << 20
PLENTY: Final = {"files": 100, "bytes": 64 * MIB}
SECRET: Final = b"what is nobody's business"


@pytest.fixture
def shelf(tmp_path: Path) -> TenantStore:
    return ArtifactStore(tmp_path / "store").shelf()


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a tool leaves its files, next to a secret."""
    work = tmp_path / "work"
    (work / "outputs").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    monkeypatch.chdir(work)
    return work / "outputs"


class Collected:
    """A collection, read as it comes."""

    def __init__(self, shelf: TenantStore, reading: int) -> None:
        self._shelf = shelf
        self._reading = reading
        self._keeping = ArtifactWriter(shelf)
        self._records = FileRecords(self._keeping, most_files=PLENTY["files"], most_bytes=PLENTY["bytes"])

    def take(self, size: int) -> int:
        """Read at most that much; return how much there was."""
        data = os.read(self._reading, size)
        self._records.feed(data)
        return len(data)

    def rest(self, *, is_expected: bool = False) -> ReceivedFiles:
        """Read the rest and return the result; the tool's process may have announced files."""
        while self.take(1 << 16):
            pass
        self._keeping.close()
        return self._records.result(is_expected=is_expected)


@contextmanager
def collecting_to(shelf: TenantStore, wanted: dict[str, int] = PLENTY) -> Iterator[Collected]:
    """A collection under way, at the pace of its reader."""
    reading, writing = os.pipe()

    def collect() -> None:
        try:
            files.collect(wanted, writing)
        finally:
            os.close(writing)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield Collected(shelf, reading)
    finally:
        thread.join()
        os.close(reading)


def collected(shelf: TenantStore, wanted: dict[str, int] = PLENTY) -> ReceivedFiles:
    with collecting_to(shelf, wanted) as collection:
        return collection.rest()


def refusals(arrived: ReceivedFiles) -> dict[str, str]:
    return {each.name: each.reason for each in arrived.refused}


def read(shelf: TenantStore, arrived: ReceivedFiles) -> dict[str, bytes]:
    found = {}
    for each in arrived.artifacts:
        with shelf.open(each.id) as file:
            found[each.name] = file.read()
    return found


def test_nothing_is_sent_of_a_call_that_left_nothing(left: Path, shelf: TenantStore) -> None:
    with collecting_to(shelf) as collection:
        assert collection.take(1) == 0
    assert not left.exists()
    with collecting_to(shelf) as collection:
        assert collection.take(1) == 0


def test_of_folders_without_a_file_nothing_is_taken_for_lost(left: Path, shelf: TenantStore) -> None:
    (left / "plots" / "small").mkdir(parents=True)
    (left / "tables").mkdir()
    assert files.is_left(str(left.parent), may_remove=True)
    with collecting_to(shelf) as collection:
        assert collection.rest(is_expected=True) == ReceivedFiles()


def test_an_empty_folder_that_cannot_be_looked_into_is_nothing_left(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_descriptors(_: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "scandir", without_descriptors)
    assert not files.is_left(str(left.parent), may_remove=False)
    left.mkdir(exist_ok=True)
    (left / "file").touch()
    assert files.is_left(str(left.parent), may_remove=False)


def test_files_arrive_by_name_with_their_bytes(left: Path, shelf: TenantStore) -> None:
    (left / "b" / "c").mkdir(parents=True)
    files = {"a": b"", "b/c/d": os.urandom(200_000), "b/ä.txt": b"x", "z z": SECRET}
    for name, content in files.items():
        (left / name).write_bytes(content)
    arrived = collected(shelf)
    assert (read(shelf, arrived), arrived.refused) == (files, ())


def _hard_link(at: Path) -> None:
    at.with_name("other").write_bytes(b"x")
    os.link(at.with_name("other"), at)


def _sparse(at: Path) -> None:
    at.touch()
    os.truncate(at, 1 << 40)


def _bound_socket(at: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(at))


KINDS: Final[dict[str, tuple[Callable[[Path], Any], str]]] = {
    "a link to a file": (lambda at: at.symlink_to("../../outside/secret"), "a symbolic link"),
    "a link to a folder": (lambda at: at.symlink_to("../../outside"), "a symbolic link"),
    "a link to itself": (lambda at: at.symlink_to(at.name), "a symbolic link"),
    "a hard link": (_hard_link, "2 names"),
    "a pipe": (os.mkfifo, "a pipe"),
    "a socket": (_bound_socket, "a socket"),
    "a sparse terabyte": (_sparse, "1099511627776 bytes"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_anything_but_a_plain_file_is_refused_by_name(left: Path, shelf: TenantStore, kind: str) -> None:
    make, reason = KINDS[kind]
    (left / "good").write_bytes(b"good")
    make(left / "odd")
    arrived = collected(shelf)
    assert read(shelf, arrived) == {"good": b"good"}
    assert reason in refusals(arrived)["odd"]


@pytest.mark.root
def test_a_device_is_refused_and_not_opened(left: Path, shelf: TenantStore) -> None:
    os.mknod(left / "zero", 0o20666, os.makedev(1, 5))
    assert "a device" in refusals(collected(shelf))["zero"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda at: at.symlink_to("../outside"), "it is a symbolic link"),
        (lambda at: at.write_bytes(b""), "it is a file, and no folder"),
        (os.mkfifo, "it is a pipe"),
    ],
)
def test_the_folder_itself_may_be_no_folder_any_more(
    left: Path, shelf: TenantStore, make: Callable[[Path], Any], reason: str
) -> None:
    left.rmdir()
    make(left)
    arrived = collected(shelf)
    assert (arrived.artifacts, refusals(arrived)) == ((), {"": reason})


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"new\nline", "new\nline"), (b"not \xff utf-8", "not \\udcff utf-8"), (b"\x1b[31m", "\x1b[31m")],
)
def test_a_name_that_no_file_should_have_is_refused(left: Path, shelf: TenantStore, name: bytes, shown: str) -> None:
    Path(os.fsdecode(os.fsencode(left) + b"/" + name)).write_bytes(b"x")
    assert set(refusals(collected(shelf))) == {shown}


def test_a_path_that_is_too_long_is_refused(left: Path, shelf: TenantStore) -> None:
    folder = left / ("a" * 250) / ("b" * 250) / ("c" * 250) / ("d" * 250)
    folder.mkdir(parents=True)
    (folder / ("e" * 250)).write_bytes(b"x")
    (reason,) = refusals(collected(shelf)).values()
    assert "longer than 1024 bytes" in reason


@pytest.mark.slow
def test_endless_folders_are_refused_at_the_depth_limit(left: Path, shelf: TenantStore) -> None:
    folder = os.open(left, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    (reason,) = refusals(collected(shelf)).values()
    assert "16 folders deep" in reason


@pytest.mark.slow
def test_of_very_many_files_only_some_are_looked_at(left: Path, shelf: TenantStore) -> None:
    for number in range(12_000):
        (left / str(number)).touch()
    arrived = collected(shelf)
    assert len(arrived.artifacts) == PLENTY["files"]
    assert any("more than 10000 names" in each.reason for each in arrived.refused)
    assert len(arrived.refused) < 100
    assert arrived.refused[-1].reason.endswith("more are not taken")


def test_a_file_that_changes_during_reading_is_refused(left: Path, shelf: TenantStore) -> None:
    for change in (lambda at: at.write_bytes(b""), lambda at: os.utime(at, (1, 1)), lambda at: os.link(at, "more")):
        at = left / "large"
        at.unlink(missing_ok=True)
        at.write_bytes(bytes(4 * MIB))
        with collecting_to(shelf) as collection:
            collection.take(10)  # the pipe is full, and most of the file not read yet
            change(at)
            arrived = collection.rest()
        assert arrived.artifacts == ()
        assert refusals(arrived) == {"large": "it changed while it was collected"}


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(left: Path, shelf: TenantStore) -> None:
    (left / "a").write_bytes(bytes(4 * MIB))
    (left / "b").mkdir()
    (left / "b" / "secret").write_bytes(b"mine")
    with collecting_to(shelf) as collection:
        collection.take(10)
        (left / "b").rename(left.parent / "moved")
        (left / "b").symlink_to(left.parent.parent / "outside")
        arrived = collection.rest()
    assert list(read(shelf, arrived)) == ["a"]
    assert refusals(arrived) == {"b": "it is a symbolic link"}


SWAP: Final = """
import ctypes, itertools, sys
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
pairs = [[name.encode() for name in pair.split(":")] for pair in sys.argv[1:]]
print("ready", flush=True)
for link, own in itertools.cycle(pairs):
    if renameat2(-100, link, -100, own, 2):  # both at once
        raise OSError(ctypes.get_errno(), "renameat2")
"""


@pytest.mark.slow
def test_nothing_outside_is_read_however_names_are_swapped(left: Path, shelf: TenantStore) -> None:
    """A process that outlived its call swaps a folder and a file for links as fast as it can."""
    outside = left.parent.parent / "outside"
    for name, target in (("folder", outside), ("file", outside / "secret")):
        (left.parent / f"{name}-link").symlink_to(target)
    (left / "folder").mkdir()
    (left / "folder" / "secret").write_bytes(b"mine")
    (left / "file").write_bytes(b"mine")
    seen = set()
    with _swapping(left):
        for _ in range(1500):
            arrived = collected(shelf)
            assert SECRET not in read(shelf, arrived).values()
            seen |= {*read(shelf, arrived), *refusals(arrived).values()}
    assert {"file", "folder/secret", "it is a symbolic link"} <= seen


@contextmanager
def _swapping(left: Path) -> Iterator[None]:
    pairs = [f"{left.parent / name}-link:{left / name}" for name in ("folder", "file")]
    command = [sys.executable, "-I", "-S", "-c", SWAP, *pairs]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout is not None
        assert swapping.stdout.readline() == b"ready\n"
        try:
            yield
            assert swapping.poll() is None
        finally:
            swapping.kill()
