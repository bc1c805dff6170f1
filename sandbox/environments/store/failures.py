"""Failures: a build that failed a moment ago is not tried again for every caller, and its log is kept for a while.

failed/<key>.json       why and when, believed for as long as it says
logs/<key>.log          what was said; the end of it when that was long

A failure holds for those who would try with the same means: with other indexes or more time, memory or disk it may go
well, or by a lock that says another size of a wheel, and one tenant's failures are no other's. A full disk is never
remembered: a build after that is tried at once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.environments.disk.complete_marker import write_whole
from sandbox.environments.indexes.settings import IndexSettings
from sandbox.errors import BuildFailed, StoreUnwritable
from sandbox.policy import Environments

if TYPE_CHECKING:
    from sandbox.environments.store.store import Store

_BELIEVED_S: Final = 60.0
LOG_BYTES: Final = 1 << 20
_REASON_CHARACTERS: Final = 4000


class FailedBuild(BaseModel):
    """A build that did not work out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    means: str = ""
    reason: str
    remedy: str | None = None
    at: float
    ttl_s: Annotated[float, Field(ge=0)]
    log: Path | None = None

    def is_current(self) -> bool:
        """Whether it is to be believed still; not when the clock was set back in between."""
        return 0 <= time.time() - self.at < self.ttl_s

    def error(self) -> BuildFailed:
        """Return the error for an equal request meanwhile."""
        left = max(self.at + self.ttl_s - time.time(), 1.0)
        again = f"it failed a moment ago; try again in {left:.0f} s" + (f", or read {self.log}" if self.log else "")
        return BuildFailed(self.reason, remedy=f"{self.remedy}; {again}" if self.remedy else again)


def means_digest(settings: IndexSettings, costs: Environments, *, tenant: str, told: str = "") -> str:
    """Return a digest that is equal for attempts that would fail alike; `told` is their input that the key does not
    have."""
    urls = [index.url for index in settings.indexes]
    places = [urls, settings.asks_default, list(settings.find_links), settings.offline]
    return hashlib.sha256(json.dumps([places, costs.model_dump(mode="json"), tenant, told]).encode()).hexdigest()


def write_failure(folder: Path, logs: Path, error: BuildFailed, *, key: str, means: str, ttl_s: float) -> FailedBuild:
    """Remember it."""
    path = logs / f"{key}.log" if error.log else None
    if path is not None:
        write_whole(path, error.log.encode("utf-8", "replace")[-LOG_BYTES:], mode=0o600)
    reason = error.message[:_REASON_CHARACTERS]
    failure = FailedBuild(
        key=key, means=means, reason=reason, remedy=error.remedy, at=time.time(), ttl_s=ttl_s, log=path
    )
    write_whole(folder / f"{key}.json", failure.model_dump_json().encode(), mode=0o600)
    return failure


def read_failure(path: Path, *, means: str | None = None) -> FailedBuild | None:
    """Return the failure in this file, of those means or of any, unless it is too old."""
    try:
        failure = FailedBuild.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return failure if failure.is_current() and means in (None, failure.means) else None


class FailureMemory:
    """The recent failures of this store, so that not every caller tries them again."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def refuse(self, key: str, means: str) -> None:
        """Raise the failure of the same attempt, if it is remembered."""
        failure = self._store.failure(key, means=means)
        if failure is not None:
            raise failure.error()

    @contextmanager
    def remembering(self, key: str, means: str) -> Iterator[None]:
        """Remember a failure of this block, and say in its remedy where its log is."""
        try:
            yield
        except StoreUnwritable:
            raise
        except BuildFailed as error:
            with suppress(OSError):
                failure = self._store.remember_failure(key, error, means=means, ttl_s=_BELIEVED_S)
                if failure.log is not None and error.remedy is None:
                    error.remedy = f"all that was said is in {failure.log}"
            raise
