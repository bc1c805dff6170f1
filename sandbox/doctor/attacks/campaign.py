"""All attacks, one program after the other, on one sandbox under one policy.

After each program the campaign checks three things from outside: did anything arrive on the host (see `stage`), is a
call that ran at the same time unharmed, and does the sandbox serve the next call?
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Unpack

from sandbox.doctor.attacks.attack import Attack, Program, Verdict, judge
from sandbox.doctor.attacks.exhaustion import EXHAUSTION
from sandbox.doctor.attacks.files import FILES
from sandbox.doctor.attacks.leftovers import LEFTOVERS
from sandbox.doctor.attacks.network import NETWORK
from sandbox.doctor.attacks.packages import PACKAGES, Look, look, policy_with
from sandbox.doctor.attacks.processes import PROCESSES
from sandbox.doctor.attacks.rights import RIGHTS
from sandbox.doctor.attacks.stage import Stage
from sandbox.errors import BoxLost, EnvironmentUnavailable, HostExhausted, IsolationUnavailable
from sandbox.outcome import Outcome, Status
from sandbox.policy import Policy
from sandbox.spec import CallFields

THEMES: Final = {
    "Files": FILES,
    "Rights": RIGHTS,
    "Processes": PROCESSES,
    "Network": NETWORK,
    "Exhaustion": EXHAUSTION,
    "Leftovers": LEFTOVERS,
    "Packages": PACKAGES,
}
ATTACKS: Final = tuple(attack for attacks in THEMES.values() for attack in attacks)
PROGRAMS: Final = tuple(program for attack in ATTACKS for program in attack.programs)

_HARMLESS: Final = "def serve() -> str:\n    return 'served'\n"
_NEIGHBOUR: Final = """
import time

def neighbour(seconds: float) -> str:
    print("here", flush=True)
    time.sleep(seconds)
    return "unharmed"
"""
_NOTHING_TO_SHOW: Final = "not tried: this user can make no folder that a box can show; set HOME to such a folder"
_NEIGHBOURLY_S: Final = 0.5


class Caller(Protocol):
    """The methods of a sandbox that attacks use."""

    async def run(self, source: str, args: Mapping[str, Any] | None = None, /, **fields: Unpack[CallFields]) -> Outcome:
        """Run one call and return its outcome."""

    def stream(
        self, source: str, args: Mapping[str, Any] | None = None, /, **fields: Unpack[CallFields]
    ) -> AsyncIterator[Any]:
        """Run one call and yield its events; the last one has the outcome."""


@dataclass(frozen=True, slots=True)
class AttackFinding:
    """The result of one attack."""

    attack: Attack
    held: bool
    how: str


async def attack_all(
    sandbox: Caller, policy: Policy, attacks: Sequence[Attack] = ATTACKS
) -> AsyncIterator[AttackFinding]:
    """Try the attacks that the policy does not itself permit, and yield a finding after each."""
    with Stage() as stage:
        for attack in attacks:
            if attack.is_asked(policy):
                yield _finding(attack, [await _try(sandbox, policy, program, stage) for program in attack.programs])


def _finding(attack: Attack, verdicts: Sequence[Verdict]) -> AttackFinding:
    held = all(verdict.held for verdict in verdicts)
    if len(verdicts) == 1:
        return AttackFinding(attack, held, verdicts[0].how)
    named = zip(attack.programs, verdicts, strict=True)
    shown = [f"{program.name}: {verdict.how}" for program, verdict in named if held or not verdict.held]
    return AttackFinding(attack, held, "; ".join(shown))


async def _try(sandbox: Caller, policy: Policy, program: Program, stage: Stage) -> Verdict:
    neighbour = await _begin_neighbour(sandbox, policy) if program.has_neighbour else None
    try:
        attempt = _run_with_packages if program.requires else _run
        verdict, said = await attempt(sandbox, policy, program, stage)
        complaints = await asyncio.to_thread(stage.complaints, said)
        if neighbour is not None and await neighbour != "unharmed":
            complaints.append("a call at the same time was harmed")
    finally:
        if neighbour is not None:
            neighbour.cancel()
    if not await _serves(sandbox, policy):
        complaints.append("the next call was not served")
    return Verdict(held=False, how="; ".join(complaints)) if complaints else verdict


async def _run(sandbox: Caller, policy: Policy, program: Program, stage: Stage) -> tuple[Verdict, str]:
    """Return the judge's verdict, and all output of the box."""
    shown = tuple(stage.facts[name] for name in program.shows)
    if not all(shown):
        return Verdict(held=False, how=_NOTHING_TO_SHOW), ""
    if shown:
        filesystem = policy.filesystem.model_copy(update={"readable": (*policy.filesystem.readable, *shown)})
        policy = policy.model_copy(update={"filesystem": filesystem})
    arguments = {name: stage.facts[name] for name in program.facts}
    limits = {name: min(value, getattr(policy.limits, name)) for name, value in program.limits.items()}
    outcomes: list[Outcome] = []
    for entry in program.entries:
        try:
            outcomes.append(await sandbox.run(program.source, arguments, entry=entry, policy=policy, limits=limits))
        except BoxLost as lost:
            return Verdict(held=program.may_lose_box, how=f"its box ended: {lost.message[:200]}"), lost.message
        except IsolationUnavailable as forged:  # on a host that has run calls before
            if "filesystem.readable" in forged.missing:
                return Verdict(held=True, how=f"no box here shows folders: {forged.message[:200]}"), forged.message
            how = f"the engine believed that a layer is missing: {forged.message[:200]}"
            return Verdict(held=False, how=how), forged.message
    return judge(program, outcomes), "".join(outcome.to_json() for outcome in outcomes)


async def _run_with_packages(sandbox: Caller, policy: Policy, program: Program, stage: Stage) -> tuple[Verdict, str]:
    """Return the verdict about two calls, each observed on the host, and all output of the box."""
    # The second call gets a process that was forked for it after the import of the packages.
    policy = policy_with(policy, stage.wheelhouse())
    outcomes: list[Outcome] = []
    complaints: list[str] = []
    for _ in range(2):
        try:
            outcome, seen = await _run_and_look(sandbox, policy, program)
        except EnvironmentUnavailable as error:
            how = f"inconclusive: no environment can be built here: {error.message[:200]}"
            return Verdict(held=False, how=how), error.message
        except (BoxLost, HostExhausted, IsolationUnavailable) as error:
            how = f"a package ended more than its own call: {error.message[:200]}"
            return Verdict(held=False, how=how), error.message
        outcomes.append(outcome)
        complaints += seen.complaints(outcome.receipt, outcome.status) if outcome.receipt else ["it has no receipt"]
    if complaints:
        return Verdict(held=False, how="; ".join(dict.fromkeys(complaints))), ""
    return judge(program, outcomes), "".join(outcome.to_json() for outcome in outcomes)


async def _run_and_look(sandbox: Caller, policy: Policy, program: Program) -> tuple[Outcome, Look]:
    """Return the outcome of a call, and the host's view of the call while it ran."""
    seen: Look | None = None
    async for event in sandbox.stream(program.source, requirements=program.requires, policy=policy, entry="attack"):
        outcome: Outcome | None = getattr(event, "outcome", None)
        if outcome is not None:
            return outcome, seen or Look()
        seen = seen or await asyncio.to_thread(look)
    raise AssertionError("a stream ended without an outcome")


async def _serves(sandbox: Caller, policy: Policy) -> bool:
    try:
        outcome = await sandbox.run(_HARMLESS, policy=policy)
    except BoxLost:
        return False
    return (outcome.status, outcome.value) == (Status.OK, "served")


async def _begin_neighbour(sandbox: Caller, policy: Policy) -> asyncio.Task[object]:
    """Return a running call, as a task whose result is the call's value."""
    has_begun = asyncio.Event()

    async def live() -> object:
        returned: object = None
        try:
            async for event in sandbox.stream(_NEIGHBOUR, {"seconds": _NEIGHBOURLY_S}, policy=policy):
                has_begun.set()
                outcome: Outcome | None = getattr(event, "outcome", None)
                returned = outcome.value if outcome is not None else returned
        finally:
            has_begun.set()
        return returned

    task = asyncio.create_task(live())
    await has_begun.wait()
    return task
