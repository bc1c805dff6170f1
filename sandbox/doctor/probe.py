"""What this host can do, found out by doing it: real calls through the engine, nothing looked up.

A *probe* is a call that does nothing, run under a policy; its receipt says which walls were up, its refusal which are
missing. A *canary* is a call that goes far beyond one limit; how it ends says whether the limit bites.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Unpack

from sandbox.errors import IsolationUnavailable
from sandbox.outcome import Outcome, Receipt, Status
from sandbox.policy import Isolation, Limits, Network, Output, OverflowAction, Policy, Reuse, ReuseMode, Strength, load
from sandbox.spec import CallFields

_PROBE: Final = "def probe():\n    return True\n"
_CANARIES: Final = Path(__file__).with_name("canary_tool.py")
_SMALL: Final = Limits.model_validate(
    {
        "wall": "30s",
        "cpu": "300ms",
        "memory": "64MiB",
        "processes": 8,
        "open_files": 32,
        "file_size": "4MiB",
        "disk": "16MiB",
        "inodes": 256,
        "output": "256KiB",
        "value": "256KiB",
    }
)
_SHORT_WALL: Final = 0.3
CANARIES: Final = ("wall", "cpu", "memory", "processes", "open_files", "file_size", "disk", "inodes", "output", "value")


class Run(Protocol):
    """Runs one call."""

    async def __call__(
        self, source: str, args: Mapping[str, Any] | None = None, /, **fields: Unpack[CallFields]
    ) -> Outcome:
        """What came of it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How a call that does nothing fared under one policy: either of the two is there."""

    policy: Policy
    receipt: Receipt | None
    refusal: IsolationUnavailable | None


@dataclass(frozen=True, slots=True)
class Bite:
    """How a call ended that asked for far more than one limit allows."""

    limit: str
    allowed: float
    bites: bool
    outcome: Outcome


def undemanding() -> Policy:
    """A policy that any host can offer: it demands no wall, so that those which are there can be seen."""
    return load("trusted").model_copy(
        update={
            "name": "probe",
            "limits": Limits(),
            "network": Network(),
            "isolation": Isolation(minimum=Strength.PLAIN, require=()),
            "reuse": Reuse(ahead=0),
        }
    )


async def try_policies(run: Run, policies: Sequence[Policy]) -> list[Trial]:
    """Each policy tried with a real call; raises `BackendUnavailable` where no box can be opened at all."""
    return list(await asyncio.gather(*(_try(run, policy) for policy in policies)))


async def _try(run: Run, policy: Policy) -> Trial:
    quiet = policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})
    try:
        outcome = await run(_PROBE, policy=quiet)
    except IsolationUnavailable as refusal:
        return Trial(policy, None, refusal)
    return Trial(policy, outcome.receipt, None)


async def try_limits(run: Run) -> list[Bite]:
    """Every canary at once."""
    policy = undemanding().model_copy(
        update={
            "limits": _SMALL,
            "output": Output(over=OverflowAction.KILL),
            "reuse": Reuse(mode=ReuseMode.NEVER, ahead=0),
        }
    )
    canaries = _CANARIES.read_text()
    return list(await asyncio.gather(*(_release(run, canaries, policy, name) for name in CANARIES)))


async def _release(run: Run, canaries: str, policy: Policy, name: str) -> Bite:
    allowed = _SHORT_WALL if name == "wall" else getattr(_SMALL, name)
    limits = {"wall": allowed} if name == "wall" else {}
    outcome = await run(canaries, {"limit": allowed}, entry=name, policy=policy, limits=limits)
    return Bite(name, allowed, _has_bitten(outcome, name), outcome)


def _has_bitten(outcome: Outcome, name: str) -> bool:
    expected = {"wall": Status.TIMEOUT, "memory": Status.MEMORY}.get(name, Status.LIMIT)
    return outcome.status is expected and outcome.limit_name == name
