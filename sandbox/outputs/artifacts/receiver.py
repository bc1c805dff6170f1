"""Receive the files that a call left, as its box sends them, and write them to the store.

The records come from `runners/python/call/files.py`. The guard that sends them is ours but runs in the box, so
names, counts and sizes are all checked again here, and the first invalid record ends the transfer. A file that the
store cannot keep is refused, and the next is tried. Nothing is opened by a name from the box: the name goes into the
outcome only.

The event loop takes the bytes, and a thread writes them, one piece after the other. `grant` is called with the number
of bytes written, so that no more is ever under way than was granted.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sandbox.errors import ArtifactsUnavailable, ProtocolError
from sandbox.outcome import Artifact, RefusedFile
from sandbox.outputs.artifacts.store import QuotaReached
from sandbox.outputs.artifacts.writer import ArtifactWriter, PartialArtifact
from sandbox.spec import is_plain_name

FILE, DATA, END, REFUSED, OVER = range(1, 6)
_RECORD: Final = struct.Struct(">IB")
_MAX_RECORD: Final = 1 << 17
_MAX_REFUSED: Final = 60
_MAX_TEXT: Final = 300


@dataclass(frozen=True, slots=True)
class ReceivedFiles:
    """The files of one call that were kept, and those that were refused."""

    artifacts: tuple[Artifact, ...] = ()
    refused: tuple[RefusedFile, ...] = ()


class FileReceiver:
    """The files of one call; used on one event loop, and `finish` is to be awaited once."""

    def __init__(
        self, writer: ArtifactWriter, *, most_files: int, most_bytes: int, grant: Callable[[int], None]
    ) -> None:
        self._records = FileRecords(writer, most_files=most_files, most_bytes=most_bytes)
        self._grant = grant
        self._threads = writer.threads
        self._waiting = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self.taken = 0
        """Bytes that have been written; grows for as long as something goes on."""

    def take(self, data: bytes) -> int:
        """Take more bytes; `grant` is called later, when they are written."""
        self._waiting += data
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return 0

    async def finish(self, *, is_expected: bool) -> ReceivedFiles:
        """Return what has been kept; no more bytes will come."""
        if self._writing is not None:
            await self._writing
        return self._records.result(is_expected=is_expected)

    async def _write(self) -> None:
        """Write what has come, in pieces as large as came meanwhile."""
        while self._waiting:
            data, self._waiting = self._waiting, bytearray()
            await self._threads.do(partial(self._records.feed, data))
            self.taken += len(data)
            self._grant(len(data))
        self._writing = None


class FileRecords:
    """A decoder from bytes to artifacts; faults of records and of the store appear in the result."""

    def __init__(self, writer: ArtifactWriter, *, most_files: int, most_bytes: int) -> None:
        self._writer = writer
        self._files_left = most_files
        self._bytes_left = most_bytes
        self._held = bytearray()
        self._pending: PartialArtifact | None = None
        self._name = ""
        self._size = 0
        self._fault: str | None = None
        self._artifacts: dict[str, Artifact] = {}
        self._refused: list[RefusedFile] = []
        self._unlisted = 0
        self._is_one_of_these_lost = False
        self._is_over = False
        self._is_broken = False

    def feed(self, data: bytes | bytearray) -> None:
        """Take what came."""
        if self._is_broken:
            return
        self._held += data
        try:
            self._take_records()
        except ProtocolError as error:
            self._break(str(error))

    def result(self, *, is_expected: bool) -> ReceivedFiles:
        """Return what has been kept; the result says so if the end did not come."""
        self._drop()
        if self._name and self._fault is not None:
            self._refuse(self._name, self._fault, is_lost=True)
        has_begun = self._artifacts or self._refused or self._name
        if not self._is_over and not self._is_broken and (is_expected or has_begun):
            self._refuse("", "the call ended before all of its files were collected")
        if self._unlisted:
            reason = f"{self._unlisted} more are not taken"
            self._refused.append(RefusedFile(name="", reason=reason, is_lost=self._is_one_of_these_lost))
        return ReceivedFiles(tuple(self._artifacts.values()), tuple(self._refused))

    def _take_records(self) -> None:
        start = 0
        try:
            while len(self._held) - start >= _RECORD.size:
                length, kind = _RECORD.unpack_from(self._held, start)
                if not 1 <= length <= _MAX_RECORD or self._is_over:
                    raise ProtocolError("what came of its files is no record")
                end = start + 4 + length
                if len(self._held) < end:
                    return
                payload = bytes(memoryview(self._held)[start + _RECORD.size : end])
                start = end
                self._take(kind, payload)
        finally:
            del self._held[:start]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == DATA:
            self._write(payload)
            return
        fields = _fields(payload)
        if kind == FILE:
            self._begin(_text(fields, "name"), _count(fields, "bytes"))
        elif kind == END:
            self._end(None if fields.get("refused") is None else _text(fields, "refused"))
        elif kind == REFUSED:
            self._refuse(_text(fields, "name"), _text(fields, "reason"))
        elif kind == OVER:
            self._is_over = True
            self._unlisted += _count(fields, "more")
        else:
            raise ProtocolError("what came of its files is of no known kind")

    def _begin(self, name: str, size: int) -> None:
        if self._name or not is_plain_name(name) or name in self._artifacts:
            raise ProtocolError("a file came that cannot come now, or by that name")
        self._files_left -= 1
        self._bytes_left -= size
        if self._files_left < 0 or self._bytes_left < 0:
            raise ProtocolError("more files came than are taken")
        self._name, self._size, self._fault = name, size, None
        with self._noting_fault():
            self._pending = self._writer.begin()

    def _write(self, data: bytes) -> None:
        self._size -= len(data)
        if not self._name or self._size < 0:
            raise ProtocolError("bytes came that belong to no file")
        if self._pending is not None:
            with self._noting_fault():
                self._pending.write(data)

    def _end(self, refused: str | None) -> None:
        if not self._name or (refused is None and self._size):
            raise ProtocolError("a file ended that is not whole")
        if refused is None and self._pending is not None:
            with self._noting_fault():
                self._artifacts[self._name] = self._pending.keep(self._name)
        if refused is not None or self._fault is not None:
            self._refuse(self._name, refused or self._fault or "", is_lost=refused is None)
        self._name = ""
        self._drop()

    @contextmanager
    def _noting_fault(self) -> Iterator[None]:
        """Note a fault of the store, to be reported at the end of the file; the rest of the file is not written."""
        try:
            yield
        except QuotaReached:
            self._fault = "there is no room for it: the tenant's artifacts have reached their quota"
        except (ArtifactsUnavailable, OSError) as error:
            self._fault = f"the store takes nothing: {error}"
        if self._fault is not None:
            self._drop()

    def _refuse(self, name: str, reason: str, *, is_lost: bool = False) -> None:
        if len(self._refused) >= _MAX_REFUSED:
            self._unlisted += 1
            self._is_one_of_these_lost |= is_lost
        else:
            self._refused.append(RefusedFile(name=name[:_MAX_TEXT], reason=reason[:_MAX_TEXT], is_lost=is_lost))

    def _break(self, reason: str) -> None:
        self._is_broken = True
        self._held.clear()
        self._refuse(self._name, reason, is_lost=self._fault is not None)
        self._name, self._fault = "", None
        self._drop()

    def _drop(self) -> None:
        if self._pending is not None:
            self._pending.drop()
            self._pending = None


def _fields(payload: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ProtocolError("what came of its files is no record")
    return fields


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields.get(name), str):
        raise ProtocolError("what came of its files is no record")
    return str(fields[name])


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise ProtocolError("what came of its files is no record")
    return value
