"""All attacks, one after the other, on one engine under one policy.

After each of them three questions are put to the outside: did anything arrive on the host (see `stage`), is a call that
ran beside the attacker unharmed, and is the next call served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from sandbox.client.client import AsyncSandbox
from sandbox.client.stream import Finished, Printed
from sandbox.doctor.attacks.attack import Attack, Verdict, judge
from sandbox.doctor.attacks.exhaustion import EXHAUSTION
from sandbox.doctor.attacks.host_files import HOST_FILES
from sandbox.doctor.attacks.leftovers import LEFTOVERS
from sandbox.doctor.attacks.network import NETWORK
from sandbox.doctor.attacks.packages import PACKAGES, Look, look, policy_with
from sandbox.doctor.attacks.privileges import PRIVILEGES
from sandbox.doctor.attacks.processes import PROCESSES
from sandbox.doctor.attacks.stage import Stage
from sandbox.errors import BoxLost, EnvironmentUnavailable, HostExhausted, IsolationUnavailable
from sandbox.outcome import Outcome, Status
from sandbox.policy import Policy

THEMES: Final = {
    "Files": HOST_FILES,
    "Rights": PRIVILEGES,
    "Processes": PROCESSES,
    "Network": NETWORK,
    "Taking everything": EXHAUSTION,
    "What stays": LEFTOVERS,
    "Packages": PACKAGES,
}
ATTACKS: Final = tuple(attack for attacks in THEMES.values() for attack in attacks)

_HARMLESS: Final = "def serve() -> str:\n    return 'served'\n"
_NEIGHBOUR: Final = """
import time

def neighbour(seconds: float) -> str:
    print("here", flush=True)
    time.sleep(seconds)
    return "unharmed"
"""
_NOTHING_TO_SHOW: Final = "not tried: this user can make no folder that a box could show; set HOME to one"
_NEIGHBOURLY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one attack."""

    attack: Attack
    held: bool
    how: str


async def attack_all(
    engine: AsyncSandbox, policy: Policy, attacks: Sequence[Attack] = ATTACKS
) -> AsyncIterator[Finding]:
    """Try those attacks that the policy does not itself permit, and tell of each as it is over."""
    with Stage() as stage:
        for attack in attacks:
            if attack.is_asked(policy):
                yield await _try(engine, policy, attack, stage)


async def _try(engine: AsyncSandbox, policy: Policy, attack: Attack, stage: Stage) -> Finding:
    neighbour = await _begin_neighbour(engine, policy) if attack.has_neighbour else None
    try:
        attempt = _attack_by_packages if attack.requires else _attack
        verdict, said = await attempt(engine, policy, attack, stage)
        complaints = await asyncio.to_thread(stage.complaints, said)
        if neighbour is not None and await neighbour != "unharmed":
            complaints.append("a call beside it was harmed")
    finally:
        if neighbour is not None:
            neighbour.cancel()
    if not await _serves(engine, policy):
        complaints.append("the next call was not served")
    if complaints:
        return Finding(attack, held=False, how="; ".join(complaints))
    return Finding(attack, held=verdict.held, how=verdict.how)


async def _attack(engine: AsyncSandbox, policy: Policy, attack: Attack, stage: Stage) -> tuple[Verdict, str]:
    """The judge's verdict, and all that came out of the box."""
    shown = tuple(stage.facts[name] for name in attack.shows)
    if not all(shown):
        return Verdict(held=False, how=_NOTHING_TO_SHOW), ""
    if shown:
        filesystem = policy.filesystem.model_copy(update={"readable": (*policy.filesystem.readable, *shown)})
        policy = policy.model_copy(update={"filesystem": filesystem})
    arguments = {name: stage.facts[name] for name in attack.facts}
    limits = {name: min(value, getattr(policy.limits, name)) for name, value in attack.limits.items()}
    outcomes: list[Outcome] = []
    for entry in attack.entries:
        try:
            outcomes.append(await engine.run(attack.source, arguments, entry=entry, policy=policy, limits=limits))
        except BoxLost as lost:
            return Verdict(held=attack.may_lose_box, how=f"its box ended: {lost.message[:200]}"), lost.message
        except IsolationUnavailable as forged:  # on a host where calls have run
            if "filesystem.readable" in forged.missing:
                return Verdict(held=True, how=f"no box here shows folders: {forged.message[:200]}"), forged.message
            how = f"it was believed that a wall is missing: {forged.message[:200]}"
            return Verdict(held=False, how=how), forged.message
    return judge(attack, outcomes), "".join(outcome.to_json() for outcome in outcomes)


async def _attack_by_packages(
    engine: AsyncSandbox, policy: Policy, attack: Attack, stage: Stage
) -> tuple[Verdict, str]:
    """The judge's verdict of two calls, each looked at on the host while it ran, and all that came out of the box.

    A second call gets a process that was forked for it after the packages were imported.
    """
    policy = policy_with(policy, stage.wheelhouse())
    outcomes: list[Outcome] = []
    complaints: list[str] = []
    for _ in range(2):
        try:
            outcome, seen = await _run_and_look(engine, policy, attack)
        except EnvironmentUnavailable as error:
            how = f"no environment can be made here, so nothing is known: {error.message[:200]}"
            return Verdict(held=False, how=how), error.message
        except (BoxLost, HostExhausted, IsolationUnavailable) as error:
            how = f"a package ended more than its own call: {error.message[:200]}"
            return Verdict(held=False, how=how), error.message
        outcomes.append(outcome)
        complaints += seen.complaints(outcome.receipt) if outcome.receipt else ["it has no receipt"]
    if complaints:
        return Verdict(held=False, how="; ".join(dict.fromkeys(complaints))), ""
    return judge(attack, outcomes), "".join(outcome.to_json() for outcome in outcomes)


async def _run_and_look(engine: AsyncSandbox, policy: Policy, attack: Attack) -> tuple[Outcome, Look]:
    """The outcome of a call, and what the host showed while it ran."""
    seen: Look | None = None
    async for event in engine.stream(attack.source, requirements=list(attack.requires), policy=policy, entry="attack"):
        if isinstance(event, Printed) and seen is None:
            seen = await asyncio.to_thread(look)
        if isinstance(event, Finished):
            return event.outcome, seen or Look()
    raise AssertionError("a stream ended without an outcome")


async def _serves(engine: AsyncSandbox, policy: Policy) -> bool:
    try:
        outcome = await engine.run(_HARMLESS, policy=policy)
    except BoxLost:
        return False
    return (outcome.status, outcome.value) == (Status.OK, "served")


async def _begin_neighbour(engine: AsyncSandbox, policy: Policy) -> asyncio.Task[object]:
    """A call that is under way when this returns; its result is what it returned."""
    has_begun = asyncio.Event()

    async def live() -> object:
        returned: object = None
        try:
            async for event in engine.stream(_NEIGHBOUR, {"seconds": _NEIGHBOURLY_S}, policy=policy):
                has_begun.set()
                if isinstance(event, Finished):
                    returned = event.outcome.value
        finally:
            has_begun.set()
        return returned

    task = asyncio.create_task(live())
    await has_begun.wait()
    return task
