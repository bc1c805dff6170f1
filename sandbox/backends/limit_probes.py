"""Whether limits bite here: a probe goes beyond a limit, and shows whether anything stops it.

A host, a daemon or a runtime may accept every limit and enforce none of them. A question to the daemon returns the
settings; only a probe shows the effect. A single program (`limit_probe_program.py`) does all probing, in two places:

- `probe_limits` runs it as a tool, in boxes of any backend, and takes the engine's own verdict about the call: `sandbox
  doctor` and `sandbox policy explain` show what came of it;
- the container backend runs it as a container's only process before it trusts a runtime with calls
  (`container/runtime_probe.py`), because a receipt must not name a limit that the runtime ignores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, Unpack

from pydantic import BaseModel, ConfigDict

from sandbox.outcome import Outcome, Status
from sandbox.policy import Isolation, Limits, Network, Output, OverflowAction, Policy, Reuse, ReuseMode, Strength, load
from sandbox.spec import CallFields

PROGRAM: Final = Path(__file__).with_name("limit_probe_program.py")
PROBED: Final = ("wall", "cpu", "memory", "processes", "open_files", "file_size", "disk", "inodes", "output", "value")

_SMALL: Final = {
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
_SHORT_WALL_S: Final = 0.3


class LimitFinding(BaseModel):
    """Whether a runtime enforces one limit, with the evidence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_enforced: bool
    is_certain: bool = True
    """False if the probe ended in a way that proves nothing, so that another try may say more."""
    evidence: str


class Run(Protocol):
    """The method that runs one call."""

    async def __call__(
        self, source: str, args: Mapping[str, Any] | None = None, /, **fields: Unpack[CallFields]
    ) -> Outcome:
        """Return the outcome of the call."""


@dataclass(frozen=True, slots=True)
class LimitProbe:
    """The end of a call that took four times one limit."""

    limit: str
    allowed: float
    outcome: Outcome

    @property
    def bites(self) -> bool:
        """Return whether the limit ended the call."""
        expected = {"wall": Status.TIMEOUT, "memory": Status.MEMORY}.get(self.limit, Status.LIMIT)
        return self.outcome.status is expected and self.outcome.limit_name == self.limit

    @property
    def message(self) -> str:
        """Return the end of the call in a few words."""
        error = self.outcome.error
        return error.message or error.type if error else "it got all it asked for"


def undemanding_policy() -> Policy:
    """Return a policy that any host can enforce: it requires no layer, so that its receipt shows the present ones."""
    return load("trusted").model_copy(
        update={
            "name": "probe",
            "limits": Limits(),
            "network": Network(),
            "isolation": Isolation(minimum=Strength.PLAIN, require=()),
            "reuse": Reuse(ahead=0),
        }
    )


async def probe_limits(run: Run) -> list[LimitProbe]:
    """Probe every limit at once, each with a call of its own; raise `BackendUnavailable` if no box can be opened."""
    small = Limits.model_validate(_SMALL)
    policy = undemanding_policy().model_copy(
        update={
            "limits": small,
            "output": Output(over=OverflowAction.KILL),
            "reuse": Reuse(mode=ReuseMode.NEVER, ahead=0),
        }
    )
    return list(await asyncio.gather(*(_probe(run, policy, name) for name in PROBED)))


async def _probe(run: Run, policy: Policy, name: str) -> LimitProbe:
    # The other probes need more time than the one that exceeds `wall`.
    allowed = _SHORT_WALL_S if name == "wall" else getattr(policy.limits, name)
    limits = {"wall": allowed} if name == "wall" else {}
    arguments = {"name": name, "limit": allowed}
    return LimitProbe(name, allowed, await run(source(), arguments, entry="probe", policy=policy, limits=limits))


@cache
def source() -> str:
    """Return the program's text."""
    return PROGRAM.read_text("utf-8")
