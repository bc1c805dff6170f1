"""Placing: the files a call is given, put where its tool finds them, in the folder `inputs`.

Their bytes follow the request on its pipe, one file after the other, in the order and of the sizes that the request
tells. They are written before anything of the tool runs, by its own process and within its own limits: where they do
not fit, the call ends as if the tool had written them. They can be read and not be written to; they are copies, so a
tool that changes them all the same has changed nothing but its own.
"""

from __future__ import annotations

import os

from box import pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "inputs"
_PIECE = 1 << 18
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE, _FOLDER_MODE = 0o400, 0o500


class _Coming:
    """The bytes of all files: what was read with the request, and what follows it."""

    def __init__(self, begun: bytes) -> None:
        self._begun = begun

    def some(self, size: int) -> bytes:
        """Some of the next `size` bytes."""
        if not self._begun:
            return pipes.some(size, most=_PIECE)
        data, self._begun = self._begun[:size], self._begun[size:]
        return data


def place(files: list[dict[str, Any]], begun: bytes) -> None:
    """Write `files`, each with a `path` below the folder and its `bytes`; OSError where there is no room for them.
    `begun`: what has been read of them already."""
    coming = _Coming(begun)
    os.mkdir(FOLDER, 0o700)
    for told in files:
        path = os.path.join(FOLDER, told["path"])
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, _NEW, _FILE_MODE)
        try:
            _copy(coming, told["bytes"], descriptor)
        finally:
            os.close(descriptor)
    os.close(pipes.REQUEST)
    for folder, _, _ in os.walk(FOLDER, topdown=False):
        os.chmod(folder, _FOLDER_MODE)


def _copy(coming: _Coming, size: int, descriptor: int) -> None:
    while size:
        data = coming.some(size)
        size -= len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
