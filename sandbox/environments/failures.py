"""Failures: a build that failed a moment ago is not tried again for every caller, and its log is kept for a while.

failed/<key>.json       why and when, believed for as long as it says
logs/<key>.log          what was said; the end of it when that was long
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.environments.sealing import write_whole

LOG_BYTES: Final = 1 << 20
_REASON_CHARACTERS: Final = 4000


class Failure(BaseModel):
    """A build that did not work out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    reason: str
    at: float
    ttl_s: Annotated[float, Field(ge=0)]
    log: Path | None = None

    def is_current(self) -> bool:
        """Whether it is to be believed still; not when the clock was set back in between."""
        return 0 <= time.time() - self.at < self.ttl_s


def write_failure(folder: Path, logs: Path, *, key: str, reason: str, log: str, ttl_s: float) -> Failure:
    """Remember it."""
    path = logs / f"{key}.log" if log else None
    if path is not None:
        write_whole(path, log.encode("utf-8", "replace")[-LOG_BYTES:], mode=0o600)
    failure = Failure(key=key, reason=reason[:_REASON_CHARACTERS], at=time.time(), ttl_s=ttl_s, log=path)
    write_whole(folder / f"{key}.json", failure.model_dump_json().encode(), mode=0o600)
    return failure


def read_failure(path: Path) -> Failure | None:
    """What is remembered there, unless it is too old."""
    try:
        failure = Failure.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return failure if failure.is_current() else None
