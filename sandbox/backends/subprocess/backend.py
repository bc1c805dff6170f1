"""The subprocess backend: boxes of processes, walled by this host's Linux kernel. No root, daemon or image is needed.

    engine ── warden          outside of the box; ends it when the engine ends
                └─ zygote     first process of the box's namespaces, sees only the box's tree of files
                     └─ guard ── tool     first process of the call's own namespaces, and the tool below it

Nothing here is trusted to have worked because it was asked for: the runner reports which namespaces the kernel refused,
and every call's own process reads its walls back before it runs a tool (see `receipts`).
"""

from __future__ import annotations

import asyncio
import compileall
import sys
from functools import cache
from pathlib import Path

from sandbox.backends.base import Backend, BoxPlan, Protection
from sandbox.backends.subprocess import groups
from sandbox.backends.subprocess.box import SubprocessBox, spawn
from sandbox.backends.subprocess.groups import Group, Hierarchies
from sandbox.backends.subprocess.tree import build_tree
from sandbox.backends.subprocess.walls import box_user, box_walls, call_walls, current_caller
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.outcome import Isolation, LayerState, LimitState
from sandbox.policy import Layer, NetworkMode, Policy, Strength
from sandbox.resources import folder


class SubprocessBackend(Backend):
    """Opens boxes of processes on this host."""

    name = "subprocess"

    def __init__(self) -> None:
        self._hierarchies = groups.find_hierarchies()
        self._owner: Group | None = None
        self._boxes = 0

    async def open(self, plan: BoxPlan) -> SubprocessBox:
        _refuse_what_cannot_be(plan.policy)
        group = self._new_group(plan.policy)
        caller = current_caller()
        user = box_user(caller)
        tree = build_tree(
            folders=plan.interpreter.folders,
            hidden=plan.interpreter.hidden,
            readable=plan.policy.filesystem.readable,
            reaches_network=plan.policy.network.mode is not NetworkMode.NONE,
        )
        zygote = Group(group.hierarchies, f"{group.path}/zygote") if group else None
        try:
            process, channel = spawn(plan.interpreter.python, runner_folder(), group=zygote)
        except OSError as error:
            raise BackendUnavailable(f"the interpreter {plan.interpreter.python} does not start: {error}") from None
        places = [str(place) for place in group.folders] if group else []
        return SubprocessBox(
            process,
            channel,
            walls={
                "box": box_walls(plan.policy, tree, caller=caller, user=user, groups=places),
                "call": call_walls(plan.policy, caller=caller, user=user, is_metered=group is not None),
                "slots": group is not None,
            },
            protection=self._protection(plan.policy, user=user, is_metered=group is not None),
            group=group,
            limits=plan.policy.limits,
        )

    async def close(self) -> None:
        for _ in range(100):
            if self._owner is None or self._owner.remove():
                return
            await asyncio.sleep(0.02)

    def _new_group(self, policy: Policy) -> Group | None:
        """A group for one box, with one inside it for its zygote."""
        if not isinstance(self._hierarchies, Hierarchies):
            return None
        if self._owner is None:
            groups.remove_orphans(self._hierarchies)
            self._owner = Group(self._hierarchies, f"{groups.owner_name()}-{id(self):x}")
            self._owner.create(passes_on=True)
        self._boxes += 1
        box = Group(self._hierarchies, f"{self._owner.path}/{self._boxes}")
        box.create(passes_on=True)
        zygote = Group(self._hierarchies, f"{box.path}/zygote")
        zygote.create()
        zygote.limit(policy.limits)
        return box

    def _protection(self, policy: Policy, *, user: int, is_metered: bool) -> Protection:
        reason = self._hierarchies if isinstance(self._hierarchies, str) else "limits read back from the group"
        caller = current_caller()
        return Protection(
            backend=self.name,
            isolation=Isolation.PROCESS,
            layers={
                Layer.CGROUP.value: LayerState(in_force=is_metered, detail=reason),
                Layer.OWN_UID.value: LayerState(
                    in_force=caller.is_root,
                    detail=f"uid {user} is this box's alone" if caller.is_root else "the engine is not root",
                ),
            },
            limits=_outer_limits(policy, is_metered=is_metered),
            network=policy.network.mode.value,
            user=str(user),
        )


def _outer_limits(policy: Policy, *, is_metered: bool) -> dict[str, LimitState]:
    """The limits that are enforced from outside of the call's processes, and by what."""
    limits = policy.limits
    by_group = "control group" if is_metered else "watch over the call's processes"
    return {
        "wall": LimitState(value=limits.wall, enforced_by="the engine's clock"),
        "cpu": LimitState(value=limits.cpu, enforced_by=by_group),
        "memory": LimitState(value=limits.memory, enforced_by=by_group),
        "processes": LimitState(value=limits.processes, enforced_by="control group" if is_metered else "rlimit"),
        "output": LimitState(value=limits.output, enforced_by="the engine"),
        "value": LimitState(value=limits.value, enforced_by="the engine"),
    }


def _refuse_what_cannot_be(policy: Policy) -> None:
    if sys.platform != "linux":
        raise BackendUnavailable("the subprocess backend needs Linux", remedy="use the container backend")
    if policy.isolation.minimum > Strength.PROCESS:
        raise IsolationUnavailable(
            f"policy '{policy.name}' accepts nothing weaker than a {policy.isolation.minimum.value}; "
            "the subprocess backend walls processes",
            missing=(policy.isolation.minimum.value,),
            remedy="use a backend that is stronger, or another policy",
        )
    if policy.network.mode in (NetworkMode.PUBLIC, NetworkMode.INDEX):
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach {policy.network.mode.value} addresses only, "
            "and nothing on this host can filter them",
            missing=("egress filter",),
            remedy="use a policy with network.mode 'none', or 'host' for code you trust",
        )


@cache
def runner_folder() -> Path:
    """Where the runner is; compiled once here, because a box's interpreter never writes bytecode."""
    runner = folder("runners") / "python"
    compileall.compile_dir(runner, quiet=2)
    return runner
