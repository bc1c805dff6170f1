"""A call with everything that is found out about it before a box is needed, and the clock it is timed by."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from sandbox.backends.base import BoxPlan
from sandbox.calls.declared_outputs import declared_outputs
from sandbox.calls.request import box_environment, preloadable
from sandbox.environments import Environment
from sandbox.outputs.budgets import Budgets
from sandbox.policy import Policy, Strength
from sandbox.pool import BoxKey
from sandbox.spec import CallSpec
from sandbox.tools import Tool


@dataclass(slots=True)
class Clock:
    """Where a call's time goes."""

    begun: float = field(default_factory=time.perf_counter)
    _marks: dict[str, float] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        self._marks[name] = time.perf_counter()

    def milliseconds(self, since: str | None, until: str) -> float:
        """Between two marks, the first being the beginning when it is None."""
        start = self.begun if since is None else self._marks[since]
        return round((self._marks[until] - start) * 1000, 3)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A spec with everything that is found out about it before a box is needed."""

    spec: CallSpec
    tool: Tool
    policy: Policy
    box_policy: Policy
    environment: Environment
    clock: Clock

    def key(self, *, is_plain: bool) -> BoxKey:
        return BoxKey(self.environment.key, self.box_policy.digest, self.spec.tenant, is_plain)

    def plan(self, *, is_plain: bool) -> BoxPlan:
        plan = BoxPlan(self.box_policy, self.environment, preload=self.preload, is_plain=is_plain)
        return replace(plan, environment=box_environment(self.box_policy, prefix=plan.prefix))

    @property
    def budgets(self) -> Budgets:
        """How much of its outputs is shown."""
        return Budgets(declared_outputs(self.tool), self.policy.output, self.spec.return_char_limit)

    @property
    def preload(self) -> tuple[str, ...]:
        """What its tool imports, as far as that is worth importing ahead of its calls."""
        is_wanted = self.policy.environment.preload
        return preloadable(self.tool, installed=self.environment.modules if is_wanted else frozenset())

    @property
    def accepts_plain(self) -> bool:
        """Whether limits and filters alone will do."""
        isolation = self.box_policy.isolation
        return isolation.minimum is Strength.PLAIN and not any("namespace" in layer for layer in isolation.require)
