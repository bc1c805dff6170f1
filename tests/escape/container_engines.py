"""Engines with containers to attack: kept for many calls, or opened for one, under each runtime that we stand for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox, Outcome, Status
from sandbox.backends.container.backend import ContainerBackend
from sandbox.doctor.attacks import Attack, AttackFinding, attack_all
from sandbox.images import BaseImage
from sandbox.policy import Policy, load

SERVE: Final = "def serve() -> str:\n    return 'served'\n"


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy, whose containers are kept or opened for one call, under a runtime."""

    runtime: str
    policy_name: str
    ahead: int | None = None
    """How many containers are opened before their calls, where that is another number than the policy's: each attack
    with limits of its own has those opened for it, and most are for nothing."""

    def __str__(self) -> str:
        return f"{self.runtime}-{'single-use' if self.policy_name == 'strict' else 'kept'}"

    @property
    def policy(self) -> Policy:
        policy = load(self.policy_name)
        if self.ahead is None:
            return policy
        return policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"ahead": self.ahead})})


KEPT: Final = Variant("runc", "default")
SINGLE_USE: Final = Variant("runc", "strict", ahead=1)
IN_GVISOR: Final = Variant("runsc", "strict", ahead=0)
VARIANTS: Final = (KEPT, SINGLE_USE, IN_GVISOR)


@dataclass(frozen=True, slots=True)
class Besieged:
    """An engine of one variant, and the loop that it lives on."""

    variant: Variant
    engine: AsyncSandbox
    loop: asyncio.Runner

    def run(self, source: str, args: dict[str, Any] | None = None, **fields: Any) -> Outcome:
        """The outcome of one call."""
        return self.loop.run(self.engine.run(source, args, **fields))

    def value(self, source: str, args: dict[str, Any] | None = None, **fields: Any) -> Any:
        """Return the value of a call, which must succeed: an attack that breaks by itself proves nothing."""
        outcome = self.run(source, args, **fields)
        assert outcome.status is Status.OK, outcome.error
        return outcome.value

    def serves(self) -> None:
        """Assert that the next call is unharmed."""
        assert self.value(SERVE) == "served"

    def attack(self, attack: Attack) -> AttackFinding:
        """Return the finding about a shipped attack."""
        return self.loop.run(self._attacked(attack))

    async def _attacked(self, attack: Attack) -> AttackFinding:
        (finding,) = [found async for found in attack_all(self.engine, self.variant.policy, [attack])]
        return finding


@pytest.fixture(scope="module")
def opened(docker_daemon: str, base_image: BaseImage) -> Iterator[Callable[[Variant], Besieged]]:
    """Return a function that opens an engine of each variant once, for all attacks of a module."""
    with _sieges(docker_daemon) as open_once:
        yield open_once


@pytest.fixture
def box(request: pytest.FixtureRequest, opened: Callable[[Variant], Besieged]) -> Besieged:
    """Return an engine of a test's variant."""
    return opened(request.param)


@contextmanager
def _sieges(host: str) -> Iterator[Callable[[Variant], Besieged]]:
    found: dict[str, Besieged] = {}
    with ExitStack() as kept:

        def open_once(variant: Variant) -> Besieged:
            if str(variant) not in found:
                found[str(variant)] = kept.enter_context(_besieged(variant, host))
            return found[str(variant)]

        yield open_once


@contextmanager
def _besieged(variant: Variant, host: str) -> Iterator[Besieged]:
    with asyncio.Runner() as loop:
        backend = ContainerBackend(host=host, runtime=variant.runtime)
        engine = AsyncSandbox(backend=backend, policy=variant.policy)
        yield Besieged(variant, engine, loop)
        loop.run(engine.close())


def variants(*chosen: Variant) -> pytest.MarkDecorator:
    """Run a test for each of these, which its fixture `box` opens."""
    return pytest.mark.parametrize("box", chosen or VARIANTS, ids=str, indirect=True)
