"""A call in a fake box, as scripts see it and as its runner keeps it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.testing.left_files import LeftFiles

_SIZE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class FakeCall:
    """A call as its box got it."""

    name: str
    arguments: dict[str, Any]
    source: str
    environment: dict[str, str]
    limits: dict[str, int]
    """The limits that are lower than those of the box."""
    files: dict[str, bytes]
    """The files of the call, by the name below `inputs`."""


@dataclass(slots=True, eq=False)
class CallUnderWay:
    """The state of a call until its end."""

    id: int
    credit: int
    limits: dict[str, int]
    request: bytearray = field(default_factory=bytearray)
    fields: dict[str, Any] | None = None
    left: LeftFiles = field(default_factory=LeftFiles)
    files_credit: int = 0
    given: list[Any] = field(default_factory=list)
    slot: int | None = None
    task: asyncio.Task[None] | None = None
    granted: asyncio.Event = field(default_factory=asyncio.Event)
    is_held: bool = False
    is_stubborn: bool = False
    counters: dict[str, Any] = field(default_factory=dict)
    """The fields of the end that its guard would measure after a kill."""
    all_given: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the files that follow its request have come."""

    def take(self, data: bytes) -> bool:
        """More of its request came, or of the files that follow it; whether the call can start with that."""
        was_known = self.fields is not None
        self.request += data
        end = _SIZE_BYTES + int.from_bytes(self.request[:_SIZE_BYTES], "big")
        if self.fields is None and len(self.request) >= max(end, _SIZE_BYTES):
            self.fields = json.loads(self.request[_SIZE_BYTES:end])
            del self.request[:end]
        if self.fields is not None and len(self.request) >= sum(each["bytes"] for each in self.fields.get("files", ())):
            self.all_given.set()
        return self.fields is not None and not was_known

    def files(self) -> dict[str, bytes]:
        """Return the files that came with the call."""
        found, at = dict[str, bytes](), 0
        for each in (self.fields or {}).get("files", ()):
            found[each["path"]] = bytes(self.request[at : at + each["bytes"]])
            at += each["bytes"]
        return found
