"""A call with everything that is found out about it before a box is needed, and the clock it is timed by.

What all calls of one tool under one policy share is its `CallTemplate`, worked out once and kept by the engine. A
warm call then only puts in what is its own: arguments, variables and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter as now
from typing import Any, Final

from sandbox.backends.base import BoxPlan
from sandbox.engine.declared_outputs import declared_outputs
from sandbox.engine.preloads import preloadable
from sandbox.engine.request import RequestHead, box_environment, lowered_limits, request_head
from sandbox.environments import Environment
from sandbox.outcome import EnvironmentUsed, ToolName
from sandbox.outputs.budgets import Budgets, requested_outputs
from sandbox.outputs.tokens import Tokenizer
from sandbox.policy import Policy, Strength
from sandbox.pool.pool import BoxKey
from sandbox.spec import CallSpec
from sandbox.tools import ToolDefinition

_BOX_LIMITS: Final = ("memory", "processes", "disk", "inodes", "artifacts", "artifact_bytes", "cpus")


@dataclass(slots=True)
class CallTiming:
    """Where a call's time goes."""

    begun: float = field(default_factory=now)
    equipped: float = 0.0
    """When it was known which environment the call is for."""
    admitted: float = 0.0
    """When it had its turn."""
    boxed: float = 0.0
    """When it had a box."""
    ended: float = 0.0

    def spans(self) -> dict[str, Any]:
        """Milliseconds of each part and of all until now, as an outcome's timing has them."""
        spans = {
            "queue_ms": self.admitted - self.equipped,
            "environment_ms": self.equipped - self.begun,
            "box_ms": self.boxed - self.admitted,
            "run_ms": self.ended - self.boxed,
            "total_ms": now() - self.begun,
        }
        # To the microsecond; `round` takes several times as long.
        return {name: int(seconds * 1e6) / 1e3 for name, seconds in spans.items()}


@dataclass(frozen=True)
class CallTemplate:
    """What calls have in common; without slots, because what is asked for is worked out once."""

    tool: ToolDefinition
    granted: Policy
    """What its operator grants; kept with what was made of it."""
    policy: Policy
    box_policy: Policy
    environment: Environment
    tenant: str
    tokenizer: Tokenizer | None = None
    _last_within: list[CallTemplate] = field(default_factory=list, init=False, repr=False, compare=False)

    def within(self, environment: Environment) -> CallTemplate:
        """The same in another environment. The last one is kept: the next call most likely asks for it again."""
        if not self._last_within or self._last_within[0].environment is not environment:
            self._last_within[:] = [replace(self, environment=environment)]
        return self._last_within[0]

    def box(self, *, is_plain: bool) -> tuple[BoxKey, BoxPlan]:
        """What its calls share a box by, and what that is opened with."""
        return self._plain_box if is_plain else self._walled_box

    @cached_property
    def budgets(self) -> Budgets:
        """How much is shown of the outputs of a call that asks for nothing else."""
        return Budgets(declared_outputs(self.tool), self.policy.output, tokenizer=self.tokenizer)

    @cached_property
    def preload(self) -> tuple[str, ...]:
        """What its tool imports, as far as that is worth importing ahead of its calls."""
        return preloadable(self.tool, environment=self.environment if self.policy.environment.preload else None)

    @cached_property
    def accepts_plain(self) -> bool:
        """Whether limits and filters alone will do."""
        isolation = self.box_policy.isolation
        return isolation.minimum is Strength.PLAIN and not any("namespace" in layer for layer in isolation.require)

    @cached_property
    def lowered(self) -> Mapping[str, float]:
        """The limits per process where its calls ask for less than their box gives."""
        return lowered_limits(self.policy, self.box_policy)

    @cached_property
    def request_head(self) -> RequestHead:
        """How the request of each call begins."""
        return request_head(self.tool, self.policy)

    @cached_property
    def environment_used(self) -> EnvironmentUsed:
        return EnvironmentUsed(key=self.environment.key, lock_digest=self.environment.lock_digest)

    @cached_property
    def tool_name(self) -> ToolName:
        return ToolName(name=self.tool.name)

    @cached_property
    def _walled_box(self) -> tuple[BoxKey, BoxPlan]:
        return self._new_box(is_plain=False)

    @cached_property
    def _plain_box(self) -> tuple[BoxKey, BoxPlan]:
        return self._new_box(is_plain=True)

    def _new_box(self, *, is_plain: bool) -> tuple[BoxKey, BoxPlan]:
        where = self.environment
        key = BoxKey(where.key, self.box_policy.digest, self.tenant, is_plain=is_plain, copy=where.copy)
        plan = BoxPlan(self.box_policy, self.environment, preload=self.preload, is_plain=is_plain)
        return key, replace(plan, environment=box_environment(self.box_policy, prefix=plan.prefix))


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A spec with everything that is found out about it before a box is needed."""

    spec: CallSpec
    recipe: CallTemplate
    clock: CallTiming

    @property
    def budgets(self) -> Budgets:
        """How much of its outputs is shown."""
        asked = requested_outputs(self.spec)
        return self.recipe.budgets if asked is None else replace(self.recipe.budgets, asked=asked)


def box_policy(granted: Policy, policy: Policy) -> Policy:
    """The granted policy, lowered only where that shapes the box."""
    if policy is granted:
        return granted
    lowered = {name: getattr(policy.limits, name) for name in _BOX_LIMITS}
    if all(getattr(granted.limits, name) == value for name, value in lowered.items()):
        return granted
    return granted.model_copy(update={"limits": granted.limits.model_copy(update=lowered)})
