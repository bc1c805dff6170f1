"""The container backend: boxes of containers, opened by a Docker daemon or one that speaks like it.

    engine ══ attach stream ══ daemon ── container: init ── zygote ── guard ── tool
       ║                                      (PID 1)     (the runner)
       ╚═ past the daemon, where it is on this machine ═════╝

Containers of a policy that lets boxes be used again stay open, and the runner in them forks a child for each call, in
namespaces of that call's own. For a policy that does not, a container is opened for one call and is itself the wall.

Opening one takes the daemon a tenth of a second or two; the pool opens them ahead. Whatever happens to the engine, a
container ends by itself when the attach stream does, also where its runner is spoken to past the daemon (see way.py),
and what is left of it then the next engine's reaper removes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import JsonValue

from sandbox.backends.base import Backend, BoxPlan, ImageGone, Shown
from sandbox.backends.container.box import ContainerBox, LastWords
from sandbox.backends.container.container_config import (
    OURS_BESIDE_A_CALL,
    Container,
    document,
    draw_user,
    is_machine,
    profile_name,
    readable_folders,
)
from sandbox.backends.container.fast_channel import Way, open_way
from sandbox.backends.container.inspection import protection
from sandbox.backends.container.isolation import Host, walls
from sandbox.backends.container.meters import ContainerMeter, meter_of
from sandbox.backends.container.ownership import Owner
from sandbox.backends.container.probe_cache import Proof, Proofs
from sandbox.backends.container.reaper import Reaper
from sandbox.backends.container.runner_payload import command, package
from sandbox.backends.container.seccomp import docker_profile
from sandbox.backends.docker.attach import AttachStream, attach
from sandbox.backends.docker.link import DaemonLink, link_to
from sandbox.backends.hints import REMEDIES
from sandbox.config import Configuration, EnvironmentForm
from sandbox.egress import SHOWN_AT
from sandbox.errors import BackendUnavailable, EnvironmentUnavailable, IsolationUnavailable
from sandbox.policy import Layer, NetworkMode, Policy, ReuseMode, Strength
from sandbox.protocols import BoxImage

if TYPE_CHECKING:
    from sandbox.egress.handoff_socket import Meeting

_GVISOR: Final = "runsc"
_SWEEP_S: Final = 60.0
_PAUSE_S: Final = 0.25
_CONFLICT: Final = 409
_DRAWS: Final = 3
_IN_USE_S: Final = 3600.0
_TO_END_S: Final = 600.0
"""What a call may take to end and to be told of, and a container to be removed, beyond all limits."""


class ContainerBackend(Backend):
    """Opens boxes of containers; `host` as in DOCKER_HOST, `runtime` one of those the daemon has. What is installed for
    a tool is shown to its containers (`mount`), or is in their image; which of the two, the daemon's place decides."""

    name = "container"
    needs_images = True
    capacity = 1

    def __init__(
        self, *, host: str | None = None, runtime: str | None = None, environment: EnvironmentForm = "auto"
    ) -> None:
        self._host = host
        self._runtime = runtime
        self._form = environment
        self._owner = Owner.current()
        self._link: asyncio.Task[DaemonLink] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._proofs = Proofs()
        self._proved: dict[str, asyncio.Task[Proof]] = {}

    @classmethod
    def configured(cls, configuration: Configuration) -> Self:
        settings = configuration.container
        return cls(host=settings.host, runtime=settings.runtime, environment=settings.environment)

    def tightened(self, policy: Policy) -> Policy:
        """Under gVisor every call has a container of its own."""
        if policy.reuse.mode is ReuseMode.NEVER or not self._gives_machines(policy):
            return policy
        never = policy.reuse.model_copy(update={"mode": ReuseMode.NEVER})
        return policy.model_copy(update={"reuse": never})

    def _gives_machines(self, policy: Policy) -> bool:
        return is_machine(self._runtime) or policy.isolation.minimum >= Strength.MACHINE

    async def daemon(self) -> DaemonLink:
        """The link to the daemon, made once; not being there now does not mean never."""
        if self._link is None or (self._link.done() and (self._link.cancelled() or self._link.exception())):
            self._link = asyncio.create_task(link_to(self._host, form=self._form))
            self._link.add_done_callback(_hear)
        link = await asyncio.shield(self._link)
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(_sweep(link))
        return link

    async def open(self, plan: BoxPlan) -> ContainerBox:
        _refuse_what_cannot_be(plan)
        link, image = await self.daemon(), _image(plan)
        if link.facts.is_podman:
            plan = replace(plan, policy=_with_calls_walled_again(plan.policy))
        runtime = _choose_runtime(self._runtime, plan.policy, link)
        _refuse_public_network(plan.policy, link, runtime)
        readable = readable_folders(plan.policy, is_visible=link.sees_our_files or link.is_on_this_machine)
        user = draw_user(is_mapped=link.facts.maps_users)
        proving = self._begin_proof(link, image=image.id, runtime=runtime)
        words = LastWords()
        async with AsyncExitStack() as half_open:
            meeting = _meeting(plan.policy)
            if meeting is not None:
                half_open.push_async_callback(meeting.close)
            container = self._container(
                plan, link, image=image, runtime=runtime, user=user, meeting=meeting, readable=readable
            )
            id = await _make(link, document(container, plan.policy), draw_name=self._owner.new_name)
            half_open.push_async_callback(_discard, link, id)
            stream = await attach(link.address, id, on_stderr=words.add)
            half_open.callback(stream.close)
            said, meter = await _start(
                link, id, stream, first=package(image.magic), most_processes=plan.policy.limits.processes
            )
            init = int(said["State"]["Pid"])
            if meter is not None:  # which knows that this is the container's process
                half_open.callback(meter.close)
                stream.end_with(init, on_end=meter.remember)
            elif not init:
                stream.end_with(init)
            if container.is_near:
                async with nullcontext() if meter is not None else _told_by_the_daemon(link, id, stream):
                    way = await open_way(stream, init=init)
            else:
                way = Way(stream)
            half_open.callback(way.close)
            proof = await _proof(proving, runtime)
            counts_memory = "memory" not in proof.unenforced
            host = Host(link.facts.machine, link.facts.cpus, runtime, link.facts.kernel, counts_memory=counts_memory)
            box = ContainerBox(
                id,
                way,
                protection=protection(
                    said,
                    policy=plan.policy,
                    proof=proof,
                    is_metered=meter is not None,
                    kernel=link.facts.kernel,
                ),
                walls=walls(
                    plan,
                    user=user,
                    is_metered=meter is not None,
                    host=host,
                    has_lines=way.is_short,
                    egress=None if meeting is None else meeting.seen_at,
                ),
                meter=meter,
                last_words=words,
                link=link,
                meeting=meeting,
            )
            box.good_for_s = _good_for_s(plan.policy)
            half_open.pop_all()
        self._settle_soon(link)
        return box

    def _settle_soon(self, link: DaemonLink) -> None:
        """The daemon answers: what it could not remove while it did not can go."""
        if link.has_unwanted and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(link.settle())

    async def close(self) -> None:
        for task in (self._sweeper, self._settling):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._link is not None:
            self._link.cancel()  # where the daemon has not answered yet
            (link,) = await asyncio.gather(self._link, return_exceptions=True)
            if isinstance(link, DaemonLink):
                await link.close()

    def _begin_proof(self, link: DaemonLink, *, image: str, runtime: str) -> asyncio.Task[Proof]:
        """Whether the limits of that runtime hold, found out while its first container opens, and before it has a
        call."""
        task = self._proved.get(runtime)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            find = partial(self._proofs.find_or_prove, image=image, runtime=runtime)
            task = self._proved[runtime] = asyncio.create_task(link.ask("proving the limits of containers", find))
            task.add_done_callback(_hear)
        return task

    def _container(
        self,
        plan: BoxPlan,
        link: DaemonLink,
        *,
        image: BoxImage,
        runtime: str,
        user: int,
        meeting: Meeting | None,
        readable: Sequence[Shown],
    ) -> Container:
        profile = docker_profile(profile_name(plan.policy, runtime), machine=link.facts.machine)
        is_near = link.is_on_this_machine and not is_machine(runtime)
        lasts = _good_for_s(plan.policy) + plan.policy.limits.wall + _TO_END_S
        return Container(
            image=image.id,
            command=command(is_near=is_near),
            user=user,
            labels=self._owner.labels(expires_at=time.time() + lasts),
            seccomp=link.profile_option(profile),
            runtime=runtime,
            mounts=(
                *(() if image.holds_environment else plan.places()),
                *([] if meeting is None else [Shown(meeting.folder, SHOWN_AT)]),
                *readable,
            ),
            host_cpus=link.facts.cpus,
            is_podman=link.facts.is_podman,
            is_near=is_near,
        )


def _good_for_s(policy: Policy) -> float:
    """How long calls may come into a container: the last has ended before the engines of other hosts, which know of its
    owner only what it carries, take it for forgotten. However busy it is, another is opened then."""
    return policy.reuse.idle + _IN_USE_S


def _hear(task: asyncio.Task[Any]) -> None:
    """Who asked for it may be gone, and why it failed is for nobody then."""
    if not task.cancelled():
        task.exception()


async def _proof(proving: asyncio.Task[Proof], runtime: str) -> Proof:
    proof = await asyncio.shield(proving)
    if "network" in proof.unenforced:
        raise IsolationUnavailable(
            f"containers of runtime {runtime} have a network although they are to have none: "
            f"{proof.findings['network'].evidence}",
            missing=("network_namespace",),
            remedy="use another runtime, or mend the daemon's",
        )
    return proof


async def _make(link: DaemonLink, wanted: Mapping[str, JsonValue], *, draw_name: Callable[[], str]) -> str:
    """Its id. A name that somebody else has taken stays theirs, and another is drawn."""
    from docker.errors import APIError, ImageNotFound

    for drawn in range(1, _DRAWS + 1):
        try:
            name = draw_name()
            return await link.make_container(partial(_create, wanted=wanted, name=name), name=name)
        except BackendUnavailable as error:
            if isinstance(error.__cause__, ImageNotFound):
                raise ImageGone(error.message, remedy="run `sandbox image bootstrap`") from error
            is_taken = isinstance(error.__cause__, APIError) and error.__cause__.status_code == _CONFLICT
            if not is_taken or drawn == _DRAWS:
                raise
    raise AssertionError("the last draw returns or raises")


def _create(client: Any, *, wanted: Mapping[str, JsonValue], name: str) -> str:
    return str(client.api.create_container_from_config(wanted, name)["Id"])


async def _discard(link: DaemonLink, id: str) -> None:
    await asyncio.shield(link.remove_container(id))


async def _start(
    link: DaemonLink, id: str, stream: AttachStream, *, first: bytes, most_processes: int
) -> tuple[dict[str, Any], ContainerMeter | None]:
    """Start it and hand the runner in; what the daemon says of it then, and what counts what it uses."""
    await link.ask("starting a container", lambda client: client.api.start(id))
    stream.send(first)
    said: dict[str, Any] = await link.ask("inspecting a container", lambda client: client.api.inspect_container(id))
    if not link.is_on_this_machine:
        return said, None
    process = int(said["State"]["Pid"])
    return said, meter_of(process, id, resting=OURS_BESIDE_A_CALL, most_processes=most_processes)


@asynccontextmanager
async def _told_by_the_daemon(link: DaemonLink, id: str, stream: AttachStream) -> AsyncIterator[None]:
    """Meanwhile the stream ends with a container whose first process is not known here, or was gone before it was."""
    asking = asyncio.create_task(_end_with_it(link, id, stream))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _end_with_it(link: DaemonLink, id: str, stream: AttachStream) -> None:
    while True:
        said = await link.ask("inspecting a container", lambda client: client.api.inspect_container(id))
        if not said["State"]["Running"]:
            return stream.end_with(0)
        await asyncio.sleep(_PAUSE_S)


async def _sweep(link: DaemonLink) -> None:
    """Remove what dead engines left, and what of ours could not be removed, now and from time to time."""
    while True:
        await link.settle()
        with suppress(BackendUnavailable):
            await link.ask("looking for containers of dead engines", lambda client: Reaper(client).sweep())
        await asyncio.sleep(_SWEEP_S)


def _image(plan: BoxPlan) -> BoxImage:
    image = plan.interpreter.image
    if image is None:
        raise EnvironmentUnavailable("this environment has no image, and containers are made from one")
    return image


def _choose_runtime(asked: str | None, policy: Policy, link: DaemonLink) -> str:
    """What was asked for; otherwise gVisor for policies that want a kernel of the box's own, or prefer one."""
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
            f"under {runtime} one call cannot be walled from the next, and policy '{policy.name}' keeps boxes",
            missing=("user_namespace",),
            remedy="use a policy with reuse.mode 'never', such as 'strict'",
        )
    return runtime


def _with_calls_walled_again(policy: Policy) -> Policy:
    """Podman gives every read-only container a /tmp without a size: only walls inside can cover that."""
    isolation = policy.isolation
    required = tuple({**dict.fromkeys(isolation.require), Layer.USER_NAMESPACE: None})
    return policy.model_copy(update={"isolation": isolation.model_copy(update={"require": required})})


def _meeting(policy: Policy) -> Meeting | None:
    """Where its runner finds who answers its calls' connections, if they have any."""
    if policy.network.mode is not NetworkMode.PUBLIC:
        return None
    from sandbox.egress.handoff_socket import Meeting

    return Meeting(policy.network)


def _refuse_public_network(policy: Policy, link: DaemonLink, runtime: str) -> None:
    """What a call connects to is handed over from kernel to kernel, so it has to be the same."""
    if policy.network.mode is NetworkMode.PUBLIC and (is_machine(runtime) or not link.is_on_this_machine):
        place = f"under {runtime}" if is_machine(runtime) else "of a daemon elsewhere"
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach public addresses only, and nothing here can filter what a "
            f"container {place} reaches",
            missing=("egress filter",),
            remedy=REMEDIES["egress filter"],
        )


def _refuse_what_cannot_be(plan: BoxPlan) -> None:
    policy = plan.policy
    if policy.network.mode is NetworkMode.INDEX:
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach {policy.network.mode.value} addresses only, "
            "and nothing here can filter what a container reaches",
            missing=("egress filter",),
            remedy=REMEDIES["index filter"],
        )
    if plan.gateway is not None or any(shown.is_writable for shown in plan.shown):
        raise BackendUnavailable("containers are shown nothing of the host that they could write to")
