"""The choice of a container's runtime, and the refusal of plans that no container here can enforce."""

from __future__ import annotations

from typing import Final

from sandbox.backends.base import BoxPlan
from sandbox.backends.container.container_config import is_machine
from sandbox.backends.container.docker.link import DaemonLink
from sandbox.backends.hints import REMEDIES
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.policy import Layer, NetworkMode, Policy, ReuseMode, Strength

_GVISOR: Final = "runsc"


def choose_runtime(asked: str | None, policy: Policy, link: DaemonLink) -> str:
    """Return the configured runtime; otherwise gVisor if the policy requires or prefers a kernel of the box's own."""
    facts = link.facts
    demands = policy.isolation.minimum >= Strength.MACHINE
    prefers = policy.isolation.prefer >= Strength.MACHINE and _GVISOR in facts.runtimes
    runtime = asked or (_GVISOR if demands or prefers else facts.default_runtime)
    if runtime not in facts.runtimes:
        raise IsolationUnavailable(
            f"the daemon has no runtime {runtime[:80]!r}; it has {', '.join(facts.runtimes)[:300]}",
            missing=(runtime[:80],),
            remedy="register it in the daemon's `runtimes`, or choose another",
        )
    if is_machine(runtime) and policy.reuse.mode is not ReuseMode.NEVER:
        raise IsolationUnavailable(
            f"under {runtime} one call cannot be isolated from the next, and policy '{policy.name}' keeps boxes",
            missing=("user_namespace",),
            remedy="use a policy with reuse.mode 'never', such as 'strict'",
        )
    return runtime


def with_user_namespace(policy: Policy) -> Policy:
    # Podman gives every read-only container a /tmp without a size, which only a mount inside can cover.
    isolation = policy.isolation
    required = tuple({**dict.fromkeys(isolation.require), Layer.USER_NAMESPACE: None})
    return policy.model_copy(update={"isolation": isolation.model_copy(update={"require": required})})


def refuse_public_network(policy: Policy, link: DaemonLink, runtime: str) -> None:
    # The guard of a call hands its listener to the engine, which works within one kernel only.
    if policy.network.mode is NetworkMode.PUBLIC and (is_machine(runtime) or not link.is_on_this_machine):
        place = f"under {runtime}" if is_machine(runtime) else "of a daemon elsewhere"
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach public addresses only, and nothing here can filter what a "
            f"container {place} reaches",
            missing=("egress filter",),
            remedy=REMEDIES["egress filter"],
        )


def refuse_unenforceable(plan: BoxPlan) -> None:
    policy = plan.policy
    if policy.network.mode is NetworkMode.INDEX:
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach {policy.network.mode.value} addresses only, "
            "and nothing here can filter what a container reaches",
            missing=("egress filter",),
            remedy=REMEDIES["index filter"],
        )
    if plan.gateway is not None or any(shown.is_writable for shown in plan.shown):
        raise BackendUnavailable("containers cannot show writable folders of the host")
