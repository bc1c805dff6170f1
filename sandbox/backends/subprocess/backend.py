"""The subprocess backend: boxes of processes, isolated by this host's Linux kernel, without root, daemon or image.

    engine ── warden          outside of the box; ends it when the engine ends
                └─ zygote     first process of the box's namespaces, sees only the box's root filesystem
                     ├─ template     imports an environment's packages, with the rights of a tool, and forks
                     └─ guard ── tool     first process of the call's own namespaces, and the tool below it

The engine takes no layer for granted: the runner reports the namespaces that the kernel refused, and the guard of every
call measures the isolation of the tool's process before the process gets its request (see `receipts`).
"""

from __future__ import annotations

import asyncio
import compileall
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from sandbox.backends.base import Backend, BoxPlan, Protection, engine_limits
from sandbox.backends.hints import REMEDIES, failed_start, missing_walls
from sandbox.backends.isolation import conditions, describe_conditions, import_plan, template_plan
from sandbox.backends.ownership import GroupOwner
from sandbox.backends.subprocess import groups
from sandbox.backends.subprocess.box import FIRST_SLOT, Started, SubprocessBox, spawn
from sandbox.backends.subprocess.groups import Group, Hierarchies
from sandbox.backends.subprocess.identity import EngineIdentity, User, box_user, current_identity
from sandbox.backends.subprocess.isolation import egress_plan, isolate_box, isolate_call
from sandbox.backends.subprocess.rootfs import RUNNER, build_rootfs
from sandbox.egress import NETWORK
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState, MeasuredBy
from sandbox.policy import Layer, Limits, NetworkMode, Policy, Strength, format_bytes
from sandbox.resources import find_folder

if TYPE_CHECKING:
    from sandbox.egress.listener_handoff import ListenerHandoff

_MIN_ZYGOTE_MEMORY: Final = 64 << 20
_MAX_ATTEMPTS: Final = 10
_TEMPLATE: Final = "template"
_FORKS_OF_TEMPLATE: Final = 3
_UNSEEN_MEMORY: Final = "counts processes and sockets, not small objects of the kernel"
_UNSEEN_CPU: Final = "does not count processes that ended unless their parent waited for them"
_SHARED_COUNTS: Final = "boxes of one user share the kernel's count of descriptors in flight"


class SubprocessBackend(Backend):
    """Opens boxes of processes on this host."""

    name = "subprocess"

    def __init__(self) -> None:
        self._identity = current_identity()
        self._hierarchies = groups.find_hierarchies()
        self._owner: Group | None = None
        self._boxes = 0

    async def open(self, plan: BoxPlan) -> SubprocessBox:
        identity = self._identity
        _refuse_unenforceable(plan, identity)
        python = plan.interpreter.python
        user = box_user(identity, is_plain=plan.is_plain)
        # A box with the engine's user could change the interpreter, so it runs a read-only view of the file instead.
        restarts = user == identity.user and not plan.is_plain and _is_writable(python, identity)
        group = self._next_group(plan.policy)
        rootfs = build_rootfs(
            folders=plan.interpreter.folders,
            hidden=plan.interpreter.hidden,
            readable=plan.policy.filesystem.readable,
            reaches_network=plan.policy.network.mode is NetworkMode.HOST,
            places=plan.places(),
            restart=(python, runner_folder()) if restarts else None,
            counts_memory=group is not None,
        )
        zygote = group.below("zygote") if group else None
        cgroup_fds = zygote.entry_files() if zygote else []
        restart = (str(python), f"{RUNNER}/__main__.py") if restarts else ()
        box_ring = isolate_box(plan, rootfs, caller=identity.user, user=user, cgroup_fds=cgroup_fds, restart=restart)
        call_ring = isolate_call(plan, rootfs, user=user, is_metered=group is not None)
        places = [str(place) for place in group.folders] if group else []
        try:
            is_public = plan.policy.network.mode is NetworkMode.PUBLIC
            started = spawn(python, runner_folder(), groups=places, reaches_public=is_public)
        except OSError as error:
            raise failed_start(f"the interpreter {python} does not start", error) from None
        box = SubprocessBox(
            started,
            walls={
                "box": box_ring,
                "call": {**call_ring, **egress_plan(started.egress)},
                "slots": group is not None,
                "installed": _installed(plan),
                "template": template_plan(
                    plan,
                    counts_memory=group is not None,
                    cgroup_fds=group.below(_TEMPLATE).entry_files() if group else (),
                ),
                **import_plan(plan),
                "lines": True,
            },
            group=group,
            limits=plan.policy.limits,
            is_plain=plan.is_plain,
            handoff=_handoff(started, plan.policy),
        )
        try:
            if group is not None:
                self._create(group, plan)
            box.protection = self._protection(plan, identity, user=user, group=group and group.below(FIRST_SLOT))
        except OSError as error:
            await asyncio.shield(box.close())
            raise failed_start("the control group of a box cannot be created", error) from None
        except BackendUnavailable:
            await asyncio.shield(box.close())
            raise
        return box

    async def close(self) -> None:
        for _ in range(100):
            if self._owner is None or self._owner.remove():
                return
            await asyncio.sleep(0.02)

    def _next_group(self, policy: Policy) -> Group | None:
        """Return the group for one box, without creating it."""
        # The warden removes the group, so it must know the group before the group exists.
        if not isinstance(self._hierarchies, Hierarchies):
            return None
        if self._owner is None:
            groups.remove_orphans(self._hierarchies)
            self._owner = Group(self._hierarchies, GroupOwner.current().name_for(id(self)))
        self._boxes += 1
        is_free = policy.limits.cpus >= (os.cpu_count() or 1)
        hierarchies = self._hierarchies.without_quota() if is_free else self._hierarchies
        return Group(hierarchies, f"{self._owner.path}/{self._boxes}")

    def _create(self, box: Group, plan: BoxPlan) -> None:
        """Create a box's group, and in it the groups of its zygote, its template and its first call."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                box.above().create(passes_on=True)
                box.create(passes_on=True)
            except (FileNotFoundError, FileExistsError):
                # The warden of our previous box removes the common parent, and may do so between the two steps.
                continue
            for name, limits in _inner_limits(plan).items():
                inner = box.below(name)
                inner.create()
                inner.limit(limits)
            return
        raise BackendUnavailable("a control group cannot be created: its parent disappears each time. Retry the call")

    def _protection(self, plan: BoxPlan, identity: EngineIdentity, *, user: User, group: Group | None) -> Protection:
        # The group of a call speaks for all calls of the box, because all of them have the same limits.
        shared = identity.cannot_give_users(is_plain=plan.is_plain)
        measured = group.in_force() if group else None
        stricter = describe_conditions(conditions(plan.policy, counts_memory=group is not None))
        return Protection(
            backend=self.name,
            isolation=Isolation.PROCESS,
            layers={
                Layer.CGROUP.value: self._groups_state(measured),
                Layer.OWN_UID.value: _user_state(user, shared=shared),
            },
            limits=_outer_limits(plan.policy, group),
            network=NETWORK if plan.policy.network.mode is NetworkMode.PUBLIC else plan.policy.network.mode.value,
            user=str(user[0]),
            details={"seccomp": stricter} if stricter else {},
        )

    def _groups_state(self, measured: Mapping[str, int] | None) -> LayerState:
        if measured is None or isinstance(self._hierarchies, str):
            return LayerState(in_force=False, detail=str(self._hierarchies), measured_by=MeasuredBy.NONE)
        limits = f"memory {format_bytes(measured['memory'])}, {measured['processes']} processes"
        detail = f"version {self._hierarchies.version}; read back: {limits}"
        return LayerState(in_force=True, detail=detail, measured_by=MeasuredBy.READ_OUTSIDE)


def _user_state(user: User, *, shared: str | None) -> LayerState:
    """Return the layer `own_uid`; `shared` is the reason why the box has no user of its own."""
    if shared is not None:
        detail = f"{shared}; {_SHARED_COUNTS}"
        return LayerState(in_force=False, detail=detail, measured_by=MeasuredBy.NONE)
    detail = f"uid {user[0]} is this box's alone"
    return LayerState(in_force=True, detail=detail, measured_by=MeasuredBy.SET_BY_ENGINE)


def _inner_limits(plan: BoxPlan) -> dict[str, Limits]:
    """Return the limits of the groups in a box. A template gets three processes more, to fork."""
    limits = plan.policy.limits
    found = {
        "zygote": limits.model_copy(update={"memory": max(limits.memory, _MIN_ZYGOTE_MEMORY)}),
        FIRST_SLOT: limits,
    }
    if plan.has_template:
        found[_TEMPLATE] = limits.model_copy(update={"processes": limits.processes + _FORKS_OF_TEMPLATE})
    return found


def _handoff(started: Started, policy: Policy) -> ListenerHandoff | None:
    """Return the end that answers the connections of a box's calls; None if the calls have no network."""
    if started.handoff is None:
        return None
    from sandbox.egress.listener_handoff import open_handoff

    return open_handoff(started.handoff, policy.network)


def _outer_limits(policy: Policy, group: Group | None) -> dict[str, LimitState]:
    """Return the limits that are enforced from outside of the call's processes."""
    limits = policy.limits
    found = group.in_force() if group else {"memory": limits.memory, "processes": limits.processes}
    quota = group.quota_cpus() if group else None
    keeper = EnforcedBy.CGROUP if group else EnforcedBy.WATCHER
    counted = {
        "cpu": LimitState(value=limits.cpu, enforced_by=keeper, note="" if group else _UNSEEN_CPU),
        "memory": LimitState(value=found["memory"], enforced_by=keeper, note=_unseen_memory(group)),
        "processes": LimitState(
            value=found["processes"], enforced_by=EnforcedBy.CGROUP if group else EnforcedBy.RLIMIT
        ),
    }
    if quota is not None:
        counted["cpus"] = LimitState(value=quota, enforced_by=EnforcedBy.CGROUP, note="quota")
    return engine_limits(limits) | counted


def _unseen_memory(group: Group | None) -> str:
    """Return a note on the memory that no limit counts, or that has a limit of its own."""
    if group is None:
        return _UNSEEN_MEMORY
    if not group.limits_sockets():
        return "does not count socket buffers"
    is_apart = group.hierarchies.version == 1
    return "socket buffers may take as much again" if is_apart else ""


def _installed(plan: BoxPlan) -> JsonValue:
    """Return the environment's prefix and the folder of its packages."""
    return None if plan.prefix is None else [plan.prefix, f"{plan.prefix}/{plan.interpreter.site}"]


def _refuse_unenforceable(plan: BoxPlan, identity: EngineIdentity) -> None:
    policy = plan.policy
    if sys.platform != "linux":
        raise BackendUnavailable("the subprocess backend needs Linux", remedy="use the container backend")
    if policy.isolation.minimum > Strength.PROCESS:
        raise IsolationUnavailable(
            f"policy '{policy.name}' accepts nothing weaker than a {policy.isolation.minimum.value}; "
            "the subprocess backend isolates processes",
            missing=(policy.isolation.minimum.value,),
            remedy="use the container backend, or another policy",
        )
    shared = identity.cannot_give_users(is_plain=plan.is_plain)
    if shared is not None and identity.owns_the_kernel and not plan.is_plain:
        raise missing_walls([Layer.OWN_UID.value], policy=policy, reason=f"{shared}; its tools would be root as well")
    mode = policy.network.mode
    has_gateway = mode is not NetworkMode.INDEX or plan.gateway is not None
    if mode in (NetworkMode.PUBLIC, NetworkMode.INDEX) and (plan.is_plain or not has_gateway):
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach {mode.value} addresses only, "
            "and this backend cannot enforce that here",
            missing=("egress filter",),
            remedy=REMEDIES["egress filter" if has_gateway else "index filter"],
        )


def _is_writable(python: Path, identity: EngineIdentity) -> bool:
    """Return whether a process with the engine's user could change the interpreter's file."""
    return python.stat().st_uid == identity.uid or os.access(python, os.W_OK)


@cache
def runner_folder() -> Path:
    """Return the runner's folder, with its bytecode."""
    # Compile here, because the interpreter of a box never writes bytecode.
    runner = find_folder("runners") / "python"
    compileall.compile_dir(runner, quiet=2)
    return runner
