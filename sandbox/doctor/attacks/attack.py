"""What an attack is, and how it is told whether the walls held.

An attack is a tool that tries every way it knows, and a judge of how its call ended. The tool reports what it gained;
that word is taken only for what nobody outside can see, such as how the kernel answered. Whatever can be seen from
outside is looked at there: how the call ended and at which limit, what it was measured to have used, who heard
something on the host, and whether the next call in the same box is served (see `stage` and `campaign`).

An attack that breaks by itself proves nothing, and does not count as held. So each program also does something honest
of the same kind, and fails when that does not work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sandbox.outcome import Isolation, Outcome, Status
from sandbox.policy import NetworkMode, Policy


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a wall held, and how that showed."""

    held: bool
    how: str


Judge: TypeAlias = Callable[[Sequence[Outcome]], Verdict]
"""The outcomes are those of the attack's calls, in the order of its `entries`."""

_MOST_NAMED: Final = 6


def _always(_: Policy) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    `facts` are those of the stage that its program takes as arguments; `entries` the functions that are called one
    after the other, in one box where the policy keeps boxes. `shows` are the facts that are folders of the host: the
    policy shows them for this attack. What it `requires` are wheels of the stage's own. Who `may_lose_box` may end its
    own box with the call: the next call shows whether that harmed anybody else. Where a box has a kernel of its own,
    and one call only, what is gained inside of it may be nobody else's: `in_a_machine` says why.
    """

    name: str
    tries: str
    source: str
    judge: Judge
    facts: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    entries: tuple[str, ...] = ("attack",)
    limits: Mapping[str, float] = field(default_factory=dict)
    is_asked: Callable[[Policy], bool] = _always
    has_neighbour: bool = False
    may_lose_box: bool = False
    requires: tuple[str, ...] = ()
    starts_with_python: bool = False
    """Whether what it requires runs by a `.pth` file, and not by an import of the tool."""
    in_a_machine: str = ""


def judge(attack: Attack, outcomes: Sequence[Outcome]) -> Verdict:
    """What the attack's own judge says, as far as it matters where the call ran."""
    verdict, receipt = attack.judge(outcomes), outcomes[-1].receipt
    is_machine = receipt is not None and receipt.isolation is Isolation.MACHINE
    if verdict.held or not is_machine or not attack.in_a_machine:
        return verdict
    return Verdict(held=True, how=f"{attack.in_a_machine} ({verdict.how})")


def unless_network_is_open(policy: Policy) -> bool:
    """For attacks on what a policy with the host's own network grants."""
    return policy.network.mode is not NetworkMode.HOST


def nothing_gained(outcomes: Sequence[Outcome]) -> Verdict:
    """The last call reports what it tried and gained, as `report` of `trying.py` does, and gained nothing."""
    outcome = outcomes[-1]
    found: Any = outcome.value
    if outcome.status is not Status.OK or not isinstance(found, dict) or not found.get("tried"):
        return Verdict(held=False, how=f"it tells nothing: {ending_of(outcome)}")
    if found["gained"]:
        return Verdict(held=False, how=f"it got through: {_listed(found['gained'])}")
    return Verdict(held=True, how=_refused(found["tried"]))


def _refused(tried: int) -> str:
    return "refused" if tried == 1 else f"refused, all {tried} ways"


def _listed(names: Sequence[object]) -> str:
    rest = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(str(name) for name in names[:_MOST_NAMED]) + rest


def ends_at(*limits: str) -> Judge:
    """The call is ended by one of these limits, on the evidence of what counts it."""

    def judge(outcomes: Sequence[Outcome]) -> Verdict:
        outcome = outcomes[-1]
        held = outcome.limit_name in limits and outcome.status in (Status.LIMIT, Status.MEMORY, Status.TIMEOUT)
        return Verdict(held=held, how=ending_of(outcome))

    return judge


def ending_of(outcome: Outcome) -> str:
    """How a call ended, in a few words."""
    if outcome.status in (Status.LIMIT, Status.MEMORY, Status.TIMEOUT):
        return f"ended at its limit '{outcome.limit_name}'"
    if outcome.error is not None:
        return f"{outcome.status.value}: {outcome.error.type}: {outcome.error.message[:200]}"
    return f"it ended with status '{outcome.status.value}'"
