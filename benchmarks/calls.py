"""The measured call: a trivial tool, timed over everything that its caller waits for. A longer source has the same tool
among as much other code as real tools have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from sandbox import AsyncSandbox, Outcome, Policy, Sandbox, Status
from sandbox.policy import load

SOURCE: Final = "def add(a: int, b: int) -> int:\n    return a + b\n"
_BESIDE: Final = """

class Part{number}:
    def __init__(self, name: str, *, price: float = 0.0) -> None:
        self.name = name.strip().lower()
        self.price = round(price, 2)

    def line(self, *, width: int = 40) -> str:
        if len(self.name) > width:
            return f"{{self.name[: width - 1]}}…"
        return f"{{self.name:<{{width}}}} {{self.price:>10.2f}}"
"""
LONG_SOURCE: Final = SOURCE + "".join(_BESIDE.format(number=number) for number in range(18))
"""About two hundred lines."""
ARGUMENTS: Final = {"a": 2, "b": 3}


@dataclass(frozen=True, slots=True)
class TimedCall:
    """The duration of a call, whether its child was forked ahead, and the way the call got its box."""

    milliseconds: float
    was_ahead: bool
    path: str


class AheadOnly:
    """A case that counts only the calls whose child was forked ahead."""

    def __init__(self, call: Callable[[], Awaitable[TimedCall]]) -> None:
        self._call = call
        self._found: list[bool] = []

    async def measure(self) -> float | None:
        """Return the milliseconds of a call, or None if its child was not forked ahead."""
        timed = await self._call()
        self._found.append(timed.was_ahead)
        return timed.milliseconds if timed.was_ahead else None

    @property
    def share(self) -> float:
        """Return the share of calls whose child was forked ahead."""
        return round(sum(self._found) / max(len(self._found), 1), 3)


def on_demand_policy() -> Policy:
    """Return the default policy with full isolation, where each child is forked only when its call comes."""
    policy = load("default")
    return policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})


async def call(sandbox: AsyncSandbox, source: str = SOURCE, requirements: Sequence[str] = ()) -> TimedCall:
    """Time a call."""
    begun = perf_counter()
    outcome = await (
        sandbox.run(source, ARGUMENTS, requirements=[*requirements]) if requirements else sandbox.run(source, ARGUMENTS)
    )
    return _time_outcome(outcome, perf_counter() - begun)


async def call_after_another(sandbox: AsyncSandbox) -> TimedCall:
    """Time a call directly after another, when the engine had no time to fork ahead."""
    await call(sandbox)
    return await call(sandbox)


def call_and_wait(sandbox: Sandbox) -> TimedCall:
    """Time a call through the sync facade."""
    begun = perf_counter()
    outcome = sandbox.run(SOURCE, ARGUMENTS)
    return _time_outcome(outcome, perf_counter() - begun)


def _time_outcome(outcome: Outcome, seconds: float) -> TimedCall:
    """Return the duration, provided that the call gave the right answer."""
    if outcome.status is not Status.OK or outcome.value != 5:
        raise RuntimeError(f"the measured call went wrong: {outcome.to_json()}")
    return TimedCall(seconds * 1000, outcome.timing.ahead, outcome.timing.path)
