"""The call that is measured: the most trivial tool, timed around all that its caller waits for. Once it stands among as
much else as the tools that people write."""

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
"""Some two hundred lines."""
ARGUMENTS: Final = {"a": 2, "b": 3}


@dataclass(frozen=True, slots=True)
class TimedCall:
    """How long one call took, whether its child was there before it, and how it came by its box."""

    milliseconds: float
    was_ahead: bool
    path: str


class AheadOnly:
    """A case that counts the calls that found a child; the others do not belong to it."""

    def __init__(self, call: Callable[[], Awaitable[TimedCall]]) -> None:
        self._call = call
        self._found: list[bool] = []

    async def measure(self) -> float | None:
        """One call."""
        timed = await self._call()
        self._found.append(timed.was_ahead)
        return timed.milliseconds if timed.was_ahead else None

    @property
    def share(self) -> float:
        """How many of them found one."""
        return round(sum(self._found) / max(len(self._found), 1), 3)


def on_demand_policy() -> Policy:
    """The default policy with every wall, but each child is forked only when its call has come."""
    policy = load("default")
    return policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": 0})})


async def call(sandbox: AsyncSandbox, source: str = SOURCE, requirements: Sequence[str] = ()) -> TimedCall:
    """One call."""
    begun = perf_counter()
    outcome = await (
        sandbox.run(source, ARGUMENTS, requirements=[*requirements]) if requirements else sandbox.run(source, ARGUMENTS)
    )
    return _timed(outcome, perf_counter() - begun)


async def call_after_another(sandbox: AsyncSandbox) -> TimedCall:
    """One call right after another, which leaves no time to make anything ready for it."""
    await call(sandbox)
    return await call(sandbox)


def call_and_wait(sandbox: Sandbox) -> TimedCall:
    """One call through the facade for programs without an event loop."""
    begun = perf_counter()
    outcome = sandbox.run(SOURCE, ARGUMENTS)
    return _timed(outcome, perf_counter() - begun)


def _timed(outcome: Outcome, seconds: float) -> TimedCall:
    """Only a call that gave the right answer has a duration."""
    if outcome.status is not Status.OK or outcome.value != 5:
        raise RuntimeError(f"the measured call went wrong: {outcome.to_json()}")
    return TimedCall(seconds * 1000, outcome.timing.ahead, outcome.timing.path)
