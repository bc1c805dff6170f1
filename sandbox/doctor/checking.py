"""A checkup: every question put to one backend, and the answers as one document."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Final

from sandbox.backends.base import Backend
from sandbox.backends.hints import PURPOSES, REMEDIES
from sandbox.doctor.lending import calls_that_leave_nothing
from sandbox.doctor.probe import Bite, Trial, try_limits, try_policies, undemanding
from sandbox.doctor.report import Checkup, Host, LimitTried, PolicyTried, WallFound
from sandbox.errors import BackendUnavailable
from sandbox.outcome import EnforcedBy, Receipt
from sandbox.policy import list_shipped, load

DEFAULT: Final = "default"


async def check_up(backend: Backend) -> Checkup:
    """Try out everything; raises `BackendUnavailable` where no box can be opened at all."""
    async with calls_that_leave_nothing(backend) as run:
        first, *trials = await try_policies(run, [undemanding(), *map(load, list_shipped())])
        if first.receipt is None:
            raise first.refusal or BackendUnavailable("no box can be opened here")
        return _checkup(first.receipt, trials, await try_limits(run))


def _checkup(receipt: Receipt, trials: Sequence[Trial], bites: Sequence[Bite]) -> Checkup:
    policies = {trial.policy.name: _policy_tried(trial) for trial in trials}
    return Checkup(
        backend=receipt.backend,
        host=_host(),
        isolation=receipt.isolation,
        default_runs=policies[DEFAULT].runs,
        layers={name: _wall_found(receipt, name) for name in PURPOSES},
        policies=policies,
        limits={bite.limit: _limit_tried(bite, receipt) for bite in bites},
        notes=receipt.notes,
    )


def _wall_found(receipt: Receipt, name: str) -> WallFound:
    state = receipt.layers[name]
    remedy = None if state.in_force else REMEDIES.get(name)
    return WallFound(
        in_force=state.in_force,
        purpose=PURPOSES[name],
        detail=state.detail,
        measured_by=state.measured_by,
        remedy=remedy,
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


def _limit_tried(bite: Bite, receipt: Receipt) -> LimitTried:
    failure = bite.outcome.error
    state = receipt.limits.get(bite.limit)
    return LimitTried(
        bites=bite.bites,
        limit=bite.allowed,
        status=bite.outcome.status,
        message=failure.message or failure.type if failure else "it got all it asked for",
        enforced_by=state.enforced_by if state else EnforcedBy.WATCHER,
        note=state.note if state else "the engine",
    )


def _host() -> Host:
    return Host(
        system=platform.system(),
        release=platform.release(),
        machine=platform.machine(),
        python=platform.python_version(),
        uid=os.geteuid(),
        processors=os.cpu_count(),
    )
