"""The document of a checkup: what `Sandbox.doctor` gives, and `sandbox doctor --json` prints."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sandbox.outcome import EnforcedBy, Isolation, MeasuredBy, Status


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Host(_Part):
    """The machine, and who asked."""

    system: str
    release: str
    machine: str
    python: str
    uid: int
    processors: int | None


class WallFound(_Part):
    """One layer of isolation, as measured around a call that demanded none."""

    in_force: bool
    purpose: str
    detail: str
    measured_by: MeasuredBy
    remedy: str | None


class PolicyTried(_Part):
    """How a call that does nothing fared under one policy."""

    runs: bool
    isolation: Isolation | None
    network: str | None
    missing: tuple[str, ...]
    message: str | None
    remedy: str | None


class LimitTried(_Part):
    """How a call ended that asked for far more than one limit allows."""

    bites: bool
    limit: float
    status: Status
    message: str
    enforced_by: EnforcedBy
    note: str


class Checkup(_Part):
    """Everything that was found out."""

    backend: str
    host: Host
    isolation: Isolation
    default_runs: bool
    """Whether a call that names no policy would run here."""
    layers: dict[str, WallFound]
    policies: dict[str, PolicyTried]
    limits: dict[str, LimitTried]
    notes: tuple[str, ...]

    def to_json(self, *, indent: int | None = None) -> str:
        """The document."""
        return self.model_dump_json(indent=indent)
