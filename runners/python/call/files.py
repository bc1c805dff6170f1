"""The files of a call: those that it is given, and those that its tool leaves.

Input files go into the folder `inputs`. Their bytes follow the request on its pipe, one file after the other, in the
order and of the sizes that the request states. The tool's own process writes them, within its own limits, before any
code of the tool runs: if they do not fit, the call ends as if the tool had written them. The files are read-only
copies, so a tool that changes them all the same changes nothing but its own copy.

Output files are what the tool left in its folder `outputs`. The guard collects them, inside the isolation of the call,
when every process of the call is dead. The guard goes from folder to folder by descriptor and never by a path of more
than one name, looks before it opens, and follows no link; the kernel enforces that as well where it can (see
kernel/beneath.py). So whatever stands at a name, nothing outside of the folder is read, and the guard never waits for
it. Only regular files with one name are taken. All others are refused, with name and reason, and so is a file that
changes meanwhile: a process may have escaped the end of its call.

The guard sends records, ``length:u32  kind:u8  payload``, on a pipe that the tool never had:

    FILE     {"name", "bytes"}      a file begins; its name is below `outputs`, with slashes
    DATA     bytes of the file
    END      {"refused": reason}    the file is over; null when these were all of its bytes
    REFUSED  {"name", "reason"}     something that is not taken
    OVER     {"more": n}            everything was looked at; that many more were refused

A call that left nothing sends no record. The engine sets the pace of the pipe, so a guard may wait here.
"""

from __future__ import annotations

import os
import stat
import struct

from box import fast_json, pipes
from kernel.beneath import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

INPUTS = "inputs"
_INPUT_PIECE = 1 << 18
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE, _FOLDER_MODE = 0o400, 0o500
OUTPUTS = "outputs"
FILE, DATA, END, REFUSED, OVER = range(1, 6)
MAX_NAME_BYTES = 1024
_PIECE = 1 << 16
_RECORD = struct.Struct(">IB")
_MAX_NAMES = 10000
_MAX_REFUSALS = 50
_MAX_DEPTH = 16
_MAX_SHOWN = 300
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class _IncomingBytes:
    """The bytes of all files: those that were read together with the request, and those that follow it."""

    def __init__(self, begun: bytes) -> None:
        self._begun = begun

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`."""
        if not self._begun:
            return pipes.read_file_bytes(min(size, _INPUT_PIECE))
        data, self._begun = self._begun[:size], self._begun[size:]
        return data


def place(files: list[dict[str, Any]], begun: bytes) -> None:
    """Write `files`, each with a `path` below the folder and its `bytes`; raise OSError if there is no room.

    `begun` holds the bytes that have been read already.
    """
    incoming = _IncomingBytes(begun)
    os.mkdir(INPUTS, 0o700)
    for file in files:
        path = os.path.join(INPUTS, file["path"])
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, _NEW, _FILE_MODE)
        try:
            _copy(incoming, file["bytes"], descriptor)
        finally:
            os.close(descriptor)
    os.close(pipes.REQUEST)
    for folder, _, _ in os.walk(INPUTS, topdown=False):
        os.chmod(folder, _FOLDER_MODE)


def _copy(incoming: _IncomingBytes, size: int, descriptor: int) -> None:
    while size:
        data = incoming.read(size)
        size -= len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


# Output files


class _Refused(Exception):
    """A file is not taken; the text says why."""


def collect(wanted: dict[str, int], descriptor: int) -> None:
    """Send the contents of the folder, at most as many `files` and `bytes` as wanted."""
    if _remove_if_empty(OUTPUTS):  # nearly always; there is no quicker way to find out
        return
    try:
        looked = os.stat(OUTPUTS, follow_symlinks=False)
    except OSError:
        return
    collection = _Collection(descriptor, wanted, disk=os.stat(".").st_dev)
    collection.begin(looked)
    collection.finish()


def is_left(home: str, *, may_remove: bool) -> bool:
    """Whether the tool left anything in its folder, as its own process sees at the end.

    An empty folder may be removed if the free room no longer matters. A process without a descriptor cannot list the
    folder, and removes an empty one in any case.
    """
    folder = "%s/%s" % (home, OUTPUTS)
    if may_remove and _remove_if_empty(folder):
        return False
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return os.path.lexists(folder) and not _remove_if_empty(folder)


def _remove_if_empty(folder: str) -> bool:
    """Remove an empty folder, and return whether that worked; the kernel removes no other."""
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def find_name_fault(path: str) -> str | None:
    """Return why no file may have that name, if so."""
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if any(ord(each) < 32 or 127 <= ord(each) < 160 or each in "\u2028\u2029" for each in path):
        return "its name has control characters"
    return "its path is longer than %d bytes" % MAX_NAME_BYTES if size > MAX_NAME_BYTES else None


class _Collection:
    """A walk over one folder."""

    def __init__(self, descriptor: int, wanted: dict[str, int], *, disk: int) -> None:
        self._descriptor = descriptor
        self._wanted = wanted
        self._disk = disk
        self._files = self._bytes = self._seen = self._refused = 0

    def begin(self, looked: os.stat_result) -> None:
        """Take the contents of the folder, which may be anything by now."""
        try:
            if stat.S_ISREG(looked.st_mode):
                raise _Refused("it is a file, and no folder")
            if not stat.S_ISDIR(looked.st_mode):
                raise _Refused(_other_kind(looked))
            self._enter(None, "", OUTPUTS, looked)
        except _Refused as refusal:
            self.refuse("", str(refusal))
        except OSError as error:
            self.refuse("", "it cannot be read: %s" % error.strerror)

    def refuse(self, path: str, reason: str) -> None:
        """Report a refused file, up to a number of them, and count it."""
        self._refused += 1
        if self._refused <= _MAX_REFUSALS:
            shown = path.encode("utf-8", "backslashreplace").decode("utf-8")[:_MAX_SHOWN]
            self._tell(REFUSED, name=shown, reason=reason)

    def finish(self) -> None:
        """Report the end, also for folders without a file.

        The tool's process may have said that it left something, and the engine would take a missing end for a loss.
        """
        if self._seen or self._refused:
            self._tell(OVER, more=max(self._refused - _MAX_REFUSALS, 0))

    def _enter(self, parent: int | None, path: str, name: str, looked: os.stat_result) -> None:
        """Take the contents of a folder, in the order of the names."""
        folder = open_beneath(name, _OPEN_FOLDER, folder=parent)
        try:
            self._check_same(looked, os.fstat(folder))
            for each in sorted(self._names(folder)):
                self._take(folder, path + each)
        finally:
            os.close(folder)

    def _names(self, folder: int) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._seen += 1
                if self._seen > _MAX_NAMES:
                    self.refuse("", "there are more than %d names; the rest was not looked at" % _MAX_NAMES)
                    return
                yield entry.name

    def _take(self, folder: int, path: str) -> None:
        try:
            reason = find_name_fault(path)
            if reason:
                raise _Refused(reason)
            name = path.rpartition("/")[2]
            looked = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(looked.st_mode):
                if path.count("/") >= _MAX_DEPTH:
                    raise _Refused("it is more than %d folders deep" % _MAX_DEPTH)
                self._enter(folder, path + "/", name, looked)
            else:
                self._take_file(folder, path, name, looked)
        except _Refused as refusal:
            self.refuse(path, str(refusal))
        except OSError as error:
            self.refuse(path, "it cannot be read: %s" % error.strerror)

    def _take_file(self, folder: int, path: str, name: str, looked: os.stat_result) -> None:
        self._check(looked)
        descriptor = open_beneath(name, _READ, folder=folder)
        try:
            found = os.fstat(descriptor)
            self._check_same(looked, found)
            self._check(found)
            self._send_file(descriptor, path, found)
        finally:
            os.close(descriptor)

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise _Refused(_other_kind(found))
        if found.st_nlink != 1:
            raise _Refused("it has %d names (hard links)" % found.st_nlink)
        if self._files >= self._wanted["files"]:
            raise _Refused("there are more than the %d files that are taken" % self._wanted["files"])
        if self._bytes + found.st_size > self._wanted["bytes"]:
            wanted = self._wanted["bytes"]
            raise _Refused("with its %d bytes there would be more than the %d that are taken" % (found.st_size, wanted))

    def _check_same(self, looked: os.stat_result, found: os.stat_result) -> None:
        """Refuse a file other than the one that was looked at, or one on a disk that the tool could not write to."""
        if (looked.st_dev, looked.st_ino) != (found.st_dev, found.st_ino):
            raise _Refused("it was replaced while it was collected")
        if found.st_dev != self._disk:
            raise _Refused("it is on another disk")

    def _send_file(self, descriptor: int, path: str, found: os.stat_result) -> None:
        self._files += 1
        self._bytes += found.st_size
        self._tell(FILE, name=path, bytes=found.st_size)
        left = found.st_size
        while left:
            data = os.read(descriptor, min(left, _PIECE))
            if not data:
                break
            left -= len(data)
            self._send(DATA, data)
        is_same = not left and _state(os.fstat(descriptor)) == _state(found)
        self._tell(END, refused=None if is_same else "it changed while it was collected")

    def _tell(self, kind: int, **fields: Any) -> None:
        self._send(kind, fast_json.write(fields).encode("ascii"))

    def _send(self, kind: int, payload: bytes) -> None:
        data = memoryview(_RECORD.pack(len(payload) + 1, kind) + payload)
        while data:
            data = data[os.write(self._descriptor, data) :]


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink


def _other_kind(found: os.stat_result) -> str:
    kinds = [text for is_kind, text in _KINDS if is_kind(found.st_mode)]
    return "it is %s" % (kinds[0] if kinds else "no regular file")
