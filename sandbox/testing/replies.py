"""How a scripted call ends: the reply its process would send, and what the runner would say of its end.

Pure functions of values, so that what a fake claims can be compared with what a real runner sends.
"""

from __future__ import annotations

import errno
import json
import signal
import traceback
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.testing.answers import Crashes, Exceeds, Exits, Raises, Returns, Step

_PLENTY: Final = 1 << 40
_ERRNO: Final = {
    "disk": errno.ENOSPC,
    "inodes": errno.ENOSPC,
    "open_files": errno.EMFILE,
    "file_size": errno.EFBIG,
}


@dataclass(frozen=True, slots=True)
class FakeEnd:
    """The reply, if one is sent, and the fields of `ended` that are not the usual ones."""

    reply: dict[str, Any] | None = None
    fields: dict[str, Any] = field(default_factory=dict)


def end_of(step: Step, *, value_limit: int) -> FakeEnd:
    """The end that a step leads to; anything that is no ending returns None."""
    if isinstance(step, Raises):
        return _replied(_raised(step.error))
    if isinstance(step, Exits):
        return _replied(_exited(step.code)) if step.is_told else FakeEnd(None, {"exit_code": step.code})
    if isinstance(step, Crashes):
        return FakeEnd(None, {"exit_code": None, "signal": step.signal})
    if isinstance(step, Exceeds):
        return _excess(step.limit)
    return _replied(_returned(step.value if isinstance(step, Returns) else None, value_limit))


def killed(reason: str) -> dict[str, Any]:
    """The fields of a call whose tree was killed."""
    return {"exit_code": None, "signal": int(signal.SIGKILL), "killed_by": reason}


def ended(id: int, fields: dict[str, Any]) -> dict[str, Any]:
    """The whole message."""
    usual = {
        "exit_code": 0,
        "signal": None,
        "cpu_s": 0.0,
        "max_rss": 0,
        "bytes_free": _PLENTY,
        "inodes_free": _PLENTY,
        "killed_by": None,
    }
    return {"type": "ended", "id": id, **usual, **fields}


def packed(reply: dict[str, Any]) -> bytes:
    """The reply behind its length."""
    data = json.dumps(reply, allow_nan=False).encode("ascii")
    return len(data).to_bytes(4, "big") + data


def _replied(reply: dict[str, Any]) -> FakeEnd:
    """A real child exits with 1 after the reply that it was asked to exit, and with 0 after any other."""
    return FakeEnd(reply, {"exit_code": int(reply["kind"] == "exited")})


def _exited(code: int) -> dict[str, Any]:
    return {"kind": "exited", "code": code}


def _returned(value: Any, limit: int) -> dict[str, Any]:
    try:
        size = len(json.dumps(value, allow_nan=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError) as error:
        return _raised(error)
    if size > limit:
        return {"kind": "too_large", "bytes": size}
    return {"kind": "value", "value": value, "warnings": []}


def _raised(error: BaseException) -> dict[str, Any]:
    if isinstance(error, SystemExit):
        code = 0 if error.code is None else error.code
        return _exited(code if isinstance(code, int) else 1)
    told = {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": _traceback(error),
    }
    number = error.errno if isinstance(error, OSError) else None
    return {"kind": "exception", "error": told, "memory": isinstance(error, MemoryError), "errno": number}


def _traceback(error: BaseException) -> str:
    """Without the fake's own frames, which a reader of the outcome has no use for."""
    frames = error.__traceback__
    while frames is not None and str(frames.tb_frame.f_globals.get("__name__")).startswith("sandbox.testing."):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def _excess(limit: str) -> FakeEnd:
    if limit in _ERRNO:
        number = _ERRNO[limit]
        full = {"disk": {"bytes_free": 0}, "inodes": {"inodes_free": 0}}.get(limit, {})
        return FakeEnd(_raised(OSError(number, errno.errorcode[number])), full)
    return FakeEnd(None, killed(limit))
