"""Collecting: what a tool left in its folder `outputs`, on its way to the engine as bytes.

The guard does it, inside of the call's walls, when every process of the call is dead. It goes from folder to folder by
descriptor and never by a path of more than one name, looks before it opens, and follows no link, which the kernel sees
to as well where it can (see kernel/beneath.py); so whatever stands at a name, nothing outside of the folder is read,
and nothing is waited for. Only regular files with one name are taken.
Whatever else there is is refused, with its name and the reason, and so is what does not stay the same meanwhile:
something may have escaped the end of its call.

What is sent are records, ``length:u32  kind:u8  payload``, on a pipe that the tool never had:

    FILE     {"name", "bytes"}      a file begins; its name is below `outputs`, parted by slashes
    DATA     bytes of it
    END      {"refused": reason}    it is over; null when these were all of its bytes
    REFUSED  {"name", "reason"}     something that is not taken
    OVER     {"more": n}            all was looked at; that many more were refused

Nothing at all is sent of a call that left nothing. The pipe is read at the engine's pace, so a guard may wait here.
"""

from __future__ import annotations

import os
import stat
import struct

from box import fast_json
from kernel.beneath import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FOLDER = "outputs"
FILE, DATA, END, REFUSED, OVER = range(1, 6)
MOST_NAME_BYTES = 1024
_PIECE = 1 << 16
_RECORD = struct.Struct(">IB")
_MOST_SEEN = 10000
_MOST_TOLD = 50
_DEEPEST = 16
_LONGEST_SHOWN = 300
_SEARCHED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class _Refused(Exception):
    """Why something is not taken."""


def collect(wanted: dict[str, int], descriptor: int) -> None:
    """Send what is in the folder below the current one; so many `files` at most, and `bytes` of them together. A folder
    with nothing in it, as it nearly always is, is removed: there is no quicker way to know."""
    if _was_empty(FOLDER):
        return
    try:
        looked = os.stat(FOLDER, follow_symlinks=False)
    except OSError:
        return
    collection = _Collection(descriptor, wanted, disk=os.stat(".").st_dev)
    collection.begin(looked)
    collection.finish()


def is_left(home: str, *, may_go: bool) -> bool:
    """Whether the tool left anything there; asked by its own process, at the end, wherever that has gone. An empty
    folder may go where it does not matter any more how much room the call left, and where it cannot be looked into, as
    by a process that has no descriptor left."""
    folder = "%s/%s" % (home, FOLDER)
    if may_go and _was_empty(folder):
        return False
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return os.path.lexists(folder) and not _was_empty(folder)


def _was_empty(folder: str) -> bool:
    """The kernel removes no folder that is not; where it could not have, there is something to be told of."""
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def misnamed(path: str) -> str | None:
    """Why nothing may be called that, if so."""
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if any(ord(each) < 32 or 127 <= ord(each) < 160 or each in "\u2028\u2029" for each in path):
        return "its name has control characters"
    return "its path is longer than %d bytes" % MOST_NAME_BYTES if size > MOST_NAME_BYTES else None


class _Collection:
    """One walk over one folder."""

    def __init__(self, descriptor: int, wanted: dict[str, int], *, disk: int) -> None:
        self._descriptor = descriptor
        self._wanted = wanted
        self._disk = disk
        self._files = self._bytes = self._seen = self._refused = 0

    def begin(self, looked: os.stat_result) -> None:
        """Take what is in the folder itself, which may be anything by now."""
        try:
            if stat.S_ISREG(looked.st_mode):
                raise _Refused("it is a file, and no folder")
            if not stat.S_ISDIR(looked.st_mode):
                raise _Refused(_other_kind(looked))
            self._enter(None, "", FOLDER, looked)
        except _Refused as refusal:
            self.refuse("", str(refusal))
        except OSError as error:
            self.refuse("", "it cannot be read: %s" % error.strerror)

    def refuse(self, path: str, reason: str) -> None:
        """Tell of something that is not taken; of many, how many more."""
        self._refused += 1
        if self._refused <= _MOST_TOLD:
            shown = path.encode("utf-8", "backslashreplace").decode("utf-8")[:_LONGEST_SHOWN]
            self._tell(REFUSED, name=shown, reason=reason)

    def finish(self) -> None:
        """All was looked at. That is told of folders without a file as well: the tool's process may have said that it
        left something, and who waits for that would take it for lost."""
        if self._seen or self._refused:
            self._tell(OVER, more=max(self._refused - _MOST_TOLD, 0))

    def _enter(self, parent: int | None, path: str, name: str, looked: os.stat_result) -> None:
        """Take what is in a folder, in the order of the names."""
        folder = open_beneath(name, _SEARCHED, folder=parent)
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
                if self._seen > _MOST_SEEN:
                    self.refuse("", "there are more than %d names; the rest was not looked at" % _MOST_SEEN)
                    return
                yield entry.name

    def _take(self, folder: int, path: str) -> None:
        try:
            reason = misnamed(path)
            if reason:
                raise _Refused(reason)
            name = path.rpartition("/")[2]
            looked = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(looked.st_mode):
                if path.count("/") >= _DEEPEST:
                    raise _Refused("it is more than %d folders deep" % _DEEPEST)
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
        """That it is what was looked at, and where the tool could put it itself."""
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
