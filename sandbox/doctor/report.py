"""The report about a backend on this host, and the calls that it is made of.

`Sandbox.doctor` returns the report, and `sandbox doctor --json` prints it.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Unpack

from pydantic import BaseModel, ConfigDict

from sandbox.backends.base import Backend, ForwardingBackend
from sandbox.backends.hints import PURPOSES, REMEDIES
from sandbox.backends.limit_probes import LimitProbe, Run, probe_limits, undemanding_policy
from sandbox.engine.engine import Engine, EngineSettings
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.outcome import EnforcedBy, Isolation, MeasuredBy, Outcome, Receipt, Status
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.policy import Policy, list_shipped, load
from sandbox.spec import CallFields, call_spec

DEFAULT: Final = "default"
_DO_NOTHING: Final = "def probe():\n    return True\n"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HostFound(_Part):
    """The machine, and the user that runs the engine."""

    system: str
    release: str
    machine: str
    python: str
    uid: int
    processors: int | None


class WallFound(_Part):
    """A layer of isolation, as measured around a call that required none."""

    in_force: bool
    purpose: str
    detail: str
    measured_by: MeasuredBy
    remedy: str | None


class PolicyTried(_Part):
    """The result of a call that does nothing, under one policy."""

    runs: bool
    isolation: Isolation | None
    network: str | None
    missing: tuple[str, ...]
    message: str | None
    remedy: str | None


class LimitTried(_Part):
    """The end of a call that went far beyond one limit."""

    bites: bool
    limit: float
    status: Status
    message: str
    enforced_by: EnforcedBy
    note: str


class Checkup(_Part):
    """The whole report."""

    backend: str
    host: HostFound
    isolation: Isolation
    default_runs: bool
    """Whether a call that names no policy can run here."""
    layers: dict[str, WallFound]
    policies: dict[str, PolicyTried]
    limits: dict[str, LimitTried]
    notes: tuple[str, ...]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as JSON."""
        return self.model_dump_json(indent=indent)


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a call that does nothing, under one policy: a receipt or a refusal."""

    policy: Policy
    receipt: Receipt | None
    refusal: IsolationUnavailable | None


async def examine(backend: Backend) -> Checkup:
    """Examine a backend with real calls; raise `BackendUnavailable` if no box can be opened at all."""
    async with _calls_that_leave_nothing(backend) as run:
        first, *trials = await try_policies(run, [undemanding_policy(), *map(load, list_shipped())])
        if first.receipt is None:
            raise first.refusal or BackendUnavailable("no box can be opened here")
        return _checkup(first.receipt, trials, await probe_limits(run))


async def try_policies(run: Run, policies: Sequence[Policy]) -> list[Trial]:
    """Try each policy with a real call; raise `BackendUnavailable` if no box can be opened at all."""
    return list(await asyncio.gather(*(_try(run, policy) for policy in policies)))


async def _try(run: Run, policy: Policy) -> Trial:
    # Without boxes ahead: no later call uses them.
    quiet = policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})
    try:
        outcome = await run(_DO_NOTHING, policy=quiet)
    except IsolationUnavailable as refusal:
        return Trial(policy, None, refusal)
    return Trial(policy, outcome.receipt, None)


@asynccontextmanager
async def _calls_that_leave_nothing(backend: Backend) -> AsyncIterator[Run]:
    """Return a function that runs calls in the backend's boxes; its engine keeps no artifacts and no boxes."""
    with TemporaryDirectory(prefix="sandbox-") as folder:
        # The engine closes a backend that forwards to the caller's, so the caller's stays open.
        engine = Engine(ForwardingBackend(backend), EngineSettings(artifacts=ArtifactStore(Path(folder))))

        async def run(source: str, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]) -> Outcome:
            return await engine.run(call_spec({**fields, "source": source, "args": args}))

        try:
            yield run
        finally:
            await engine.close()


def _checkup(receipt: Receipt, trials: Sequence[Trial], probes: Sequence[LimitProbe]) -> Checkup:
    policies = {trial.policy.name: _policy_tried(trial) for trial in trials}
    return Checkup(
        backend=receipt.backend,
        host=_host(),
        isolation=receipt.isolation,
        default_runs=policies[DEFAULT].runs,
        layers={name: _wall_found(receipt, name) for name in PURPOSES},
        policies=policies,
        limits={probe.limit: _limit_tried(probe, receipt) for probe in probes},
        notes=receipt.notes,
    )


def _wall_found(receipt: Receipt, name: str) -> WallFound:
    state = receipt.layers[name]
    return WallFound(
        in_force=state.in_force,
        purpose=PURPOSES[name],
        detail=state.detail,
        measured_by=state.measured_by,
        remedy=None if state.in_force else REMEDIES.get(name),
    )


def _policy_tried(trial: Trial) -> PolicyTried:
    receipt, refusal = trial.receipt, trial.refusal
    return PolicyTried(
        runs=receipt is not None,
        isolation=receipt.isolation if receipt else None,
        network=receipt.network if receipt else None,
        missing=refusal.missing if refusal else (),
        message=refusal.message if refusal else None,
        remedy=refusal.remedy if refusal else None,
    )


def _limit_tried(probe: LimitProbe, receipt: Receipt) -> LimitTried:
    state = receipt.limits.get(probe.limit)
    return LimitTried(
        bites=probe.bites,
        limit=probe.allowed,
        status=probe.outcome.status,
        message=probe.message,
        enforced_by=state.enforced_by if state else EnforcedBy.WATCHER,
        note=state.note if state else "the engine",
    )


def _host() -> HostFound:
    return HostFound(
        system=platform.system(),
        release=platform.release(),
        machine=platform.machine(),
        python=platform.python_version(),
        uid=os.geteuid(),
        processors=os.cpu_count(),
    )
