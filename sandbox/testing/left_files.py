"""Files that a scripted call leaves, as the records that a real guard sends of them (`outputs.artifacts.arriving`).

Pure functions of values. The fake refuses the same files as a real guard, in the same words: more than the
policy's files and bytes, and names that are not plain.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sandbox.outputs.artifacts.receiver import DATA, END, FILE, OVER, REFUSED
from sandbox.spec import is_plain_name

_RECORD: Final = struct.Struct(">IB")
_PIECE: Final = 1 << 16


@dataclass(slots=True)
class LeftFiles:
    """The files of a call so far: content by name, and the reason for each refused name."""

    files: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def records(self, taken: Mapping[str, int]) -> bytes:
        """Return the records that a guard sends at the end. `taken` gives the `files` and `bytes` that it may send."""
        if not self.files and not self.refused:
            return b""
        parts = [
            *self._files(taken),
            *(_json_record(REFUSED, name=name, reason=why) for name, why in self.refused.items()),
        ]
        return b"".join((*parts, _json_record(OVER, more=0)))

    def _files(self, taken: Mapping[str, int]) -> Iterator[bytes]:
        count = size = 0
        for name, content in sorted(self.files.items()):
            reason = _why_refused(name, count=count, size=size + len(content), taken=taken)
            if reason is not None:
                yield _json_record(REFUSED, name=name, reason=reason)
                continue
            count, size = count + 1, size + len(content)
            yield _json_record(FILE, name=name, bytes=len(content))
            for start in range(0, len(content), _PIECE):
                yield _record(DATA, content[start : start + _PIECE])
            yield _json_record(END, refused=None)


def _why_refused(name: str, *, count: int, size: int, taken: Mapping[str, int]) -> str | None:
    if not is_plain_name(name):
        return "its name is no plain one"
    if count >= taken["files"]:
        return f"there are more than the {taken['files']} files that are taken"
    return f"there would be more than the {taken['bytes']} bytes that are taken" if size > taken["bytes"] else None


def _json_record(kind: int, **fields: object) -> bytes:
    return _record(kind, json.dumps(fields).encode("ascii"))


def _record(kind: int, payload: bytes) -> bytes:
    return _RECORD.pack(len(payload) + 1, kind) + payload
