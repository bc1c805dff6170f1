"""The container backend: boxes that are containers of a Docker daemon, or of a daemon with the same protocol.

    engine ══ attach stream ══ daemon ── container: init ── zygote ── guard ── tool
       ║                                      (PID 1)     (the runner)
       ╚═ past the daemon, if it is on this machine ════════╝

If the policy allows reuse, containers stay open, and the runner in them forks a child for each call, in namespaces of
that call's own. Otherwise a container serves one call and is itself the isolation.

The daemon takes a tenth of a second or two to open a container; the pool opens containers ahead. Whatever happens to
the engine, a container ends when its attach stream does, also if the channel leads past the daemon (see
fast_channel.py), and the reaper of the next engine removes the rest.
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
    RESTING_PROCESSES,
    Container,
    create_body,
    draw_user,
    is_machine,
    profile_name,
    readable_folders,
)
from sandbox.backends.container.docker.attach import AttachStream, attach
from sandbox.backends.container.docker.link import DaemonLink, link_to
from sandbox.backends.container.fast_channel import RunnerChannel, open_runner_channel
from sandbox.backends.container.isolation import ContainerHost, isolate, read_protection
from sandbox.backends.container.meters import ContainerMeter, meter_of
from sandbox.backends.container.probe_cache import ProbeCache, RuntimeLimits
from sandbox.backends.container.reaper import Reaper
from sandbox.backends.container.runner_payload import runner_command, runner_payload
from sandbox.backends.container.runtime_choice import (
    choose_runtime,
    refuse_public_network,
    refuse_unenforceable,
    with_user_namespace,
)
from sandbox.backends.container.seccomp import docker_profile
from sandbox.backends.ownership import ContainerOwner
from sandbox.config import Configuration, EnvironmentForm
from sandbox.egress import SHOWN_AT
from sandbox.errors import BackendUnavailable, EnvironmentUnavailable, IsolationUnavailable
from sandbox.policy import NetworkMode, Policy, ReuseMode, Strength
from sandbox.protocols import BoxImage

if TYPE_CHECKING:
    from sandbox.egress.handoff_socket import HandoffSocket

_SWEEP_S: Final = 60.0
_PAUSE_S: Final = 0.25
_CONFLICT: Final = 409
_MAX_NAMES: Final = 3
_IN_USE_S: Final = 3600.0
_TO_END_S: Final = 600.0
"""The time beyond all limits for the end of a call, its outcome, and the removal of the container."""


class ContainerBackend(Backend):
    """Open containers; `host` as in DOCKER_HOST, `runtime` one of the daemon's.

    A tool's packages are mounted into its containers, or are in their image; if `environment` is "auto", the daemon's
    place decides.
    """

    name = "container"
    needs_images = True
    capacity = 1

    def __init__(
        self, *, host: str | None = None, runtime: str | None = None, environment: EnvironmentForm = "auto"
    ) -> None:
        self._host = host
        self._runtime = runtime
        self._form = environment
        self._owner = ContainerOwner.current()
        self._link: asyncio.Task[DaemonLink] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._probe_cache = ProbeCache()
        self._probes: dict[str, asyncio.Task[RuntimeLimits]] = {}

    @classmethod
    def configured(cls, configuration: Configuration) -> Self:
        settings = configuration.container
        return cls(host=settings.host, runtime=settings.runtime, environment=settings.environment)

    def tightened(self, policy: Policy) -> Policy:
        """Return the policy; with gVisor, every call gets a container of its own."""
        if policy.reuse.mode is ReuseMode.NEVER or not self._gives_machines(policy):
            return policy
        never = policy.reuse.model_copy(update={"mode": ReuseMode.NEVER})
        return policy.model_copy(update={"reuse": never})

    def _gives_machines(self, policy: Policy) -> bool:
        return is_machine(self._runtime) or policy.isolation.minimum >= Strength.MACHINE

    async def daemon(self) -> DaemonLink:
        """Return the link to the daemon."""
        # Made once; a daemon that was absent may be there now.
        if self._link is None or (self._link.done() and (self._link.cancelled() or self._link.exception())):
            self._link = asyncio.create_task(link_to(self._host, form=self._form))
            self._link.add_done_callback(_retrieve_error)
        link = await asyncio.shield(self._link)
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(_sweep(link))
        return link

    async def open(self, plan: BoxPlan) -> ContainerBox:
        refuse_unenforceable(plan)
        link, image = await self.daemon(), _image(plan)
        if link.facts.is_podman:
            plan = replace(plan, policy=with_user_namespace(plan.policy))
        runtime = choose_runtime(self._runtime, plan.policy, link)
        refuse_public_network(plan.policy, link, runtime)
        readable = readable_folders(plan.policy, is_visible=link.sees_our_files or link.is_on_this_machine)
        user = draw_user(is_mapped=link.facts.maps_users)
        probing = self._begin_probe(link, image=image.id, runtime=runtime)
        words = LastWords()
        async with AsyncExitStack() as half_open:
            handoff_socket = _handoff_socket(plan.policy)
            if handoff_socket is not None:
                half_open.push_async_callback(handoff_socket.close)
            container = self._container(
                plan, link, image=image, runtime=runtime, user=user, handoff_socket=handoff_socket, readable=readable
            )
            id = await _make(link, create_body(container, plan.policy), draw_name=self._owner.new_name)
            half_open.push_async_callback(_discard, link, id)
            stream = await attach(link.address, id, on_stderr=words.add)
            half_open.callback(stream.close)
            inspected, meter = await _start(
                link, id, stream, payload=runner_payload(image.magic), most_processes=plan.policy.limits.processes
            )
            init = int(inspected["State"]["Pid"])
            if meter is not None:  # the meter proves that `init` is the container's process
                half_open.callback(meter.close)
                stream.end_with(init, on_end=meter.remember)
            elif not init:
                stream.end_with(init)
            if container.is_near:
                async with nullcontext() if meter is not None else _ending_with_container(link, id, stream):
                    channel = await open_runner_channel(stream, init=init)
            else:
                channel = RunnerChannel(stream)
            half_open.callback(channel.close)
            limits = await _runtime_limits(probing, runtime)
            box = ContainerBox(
                id,
                channel,
                protection=read_protection(
                    inspected,
                    policy=plan.policy,
                    limits=limits,
                    is_metered=meter is not None,
                    kernel=link.facts.kernel,
                ),
                walls=isolate(
                    plan,
                    user=user,
                    is_metered=meter is not None,
                    host=ContainerHost(
                        link.facts.machine,
                        link.facts.cpus,
                        runtime,
                        link.facts.kernel,
                        counts_memory="memory" not in limits.unenforced,
                    ),
                    has_lines=channel.is_short,
                    egress=None if handoff_socket is None else handoff_socket.seen_at,
                ),
                meter=meter,
                last_words=words,
                link=link,
                handoff_socket=handoff_socket,
            )
            box.good_for_s = _good_for_s(plan.policy)
            half_open.pop_all()
        self._settle_soon(link)
        return box

    def _settle_soon(self, link: DaemonLink) -> None:
        # The daemon answers again, so it can remove the containers that it could not remove before.
        if link.has_unwanted and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(link.settle())

    async def close(self) -> None:
        for task in (self._sweeper, self._settling):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._link is not None:
            self._link.cancel()  # if the daemon has not answered yet
            (link,) = await asyncio.gather(self._link, return_exceptions=True)
            if isinstance(link, DaemonLink):
                await link.close()

    def _begin_probe(self, link: DaemonLink, *, image: str, runtime: str) -> asyncio.Task[RuntimeLimits]:
        """Probe the limits of that runtime while its first container opens, and before the container has a call."""
        task = self._probes.get(runtime)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            probe = partial(self._probe_cache.find_or_probe, image=image, runtime=runtime)
            task = self._probes[runtime] = asyncio.create_task(link.ask("probing the limits of containers", probe))
            task.add_done_callback(_retrieve_error)
        return task

    def _container(
        self,
        plan: BoxPlan,
        link: DaemonLink,
        *,
        image: BoxImage,
        runtime: str,
        user: int,
        handoff_socket: HandoffSocket | None,
        readable: Sequence[Shown],
    ) -> Container:
        profile = docker_profile(profile_name(plan.policy, runtime), machine=link.facts.machine)
        is_near = link.is_on_this_machine and not is_machine(runtime)
        lasts = _good_for_s(plan.policy) + plan.policy.limits.wall + _TO_END_S
        return Container(
            image=image.id,
            command=runner_command(is_near=is_near),
            user=user,
            labels=self._owner.labels(expires_at=time.time() + lasts),
            seccomp=link.profile_option(profile),
            runtime=runtime,
            mounts=(
                *(() if image.holds_environment else plan.places()),
                *([] if handoff_socket is None else [Shown(handoff_socket.folder, SHOWN_AT)]),
                *readable,
            ),
            host_cpus=link.facts.cpus,
            is_podman=link.facts.is_podman,
            is_near=is_near,
        )


def _good_for_s(policy: Policy) -> float:
    """Return the time in which a container accepts calls."""
    # Its last call must end before its expiry, after which engines of other hosts may remove it. Even a busy container
    # is replaced then.
    return policy.reuse.idle + _IN_USE_S


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    # The caller may be gone; asyncio would log an exception that no caller retrieves.
    if not task.cancelled():
        task.exception()


async def _runtime_limits(probing: asyncio.Task[RuntimeLimits], runtime: str) -> RuntimeLimits:
    limits = await asyncio.shield(probing)
    if "network" in limits.unenforced:
        raise IsolationUnavailable(
            f"containers of runtime {runtime} have a network despite network `none`: "
            f"{limits.findings['network'].evidence}",
            missing=("network_namespace",),
            remedy="use another runtime, or repair the daemon's",
        )
    return limits


async def _make(link: DaemonLink, wanted: Mapping[str, JsonValue], *, draw_name: Callable[[], str]) -> str:
    """Create a container and return its id, with another name if one is taken."""
    from docker.errors import APIError, ImageNotFound

    for attempt in range(1, _MAX_NAMES + 1):
        try:
            name = draw_name()
            return await link.make_container(partial(_create, wanted=wanted, name=name), name=name)
        except BackendUnavailable as error:
            if isinstance(error.__cause__, ImageNotFound):
                raise ImageGone(error.message, remedy="run `sandbox image bootstrap`") from error
            is_taken = isinstance(error.__cause__, APIError) and error.__cause__.status_code == _CONFLICT
            if not is_taken or attempt == _MAX_NAMES:
                raise
    raise AssertionError("the last attempt returns or raises")


def _create(client: Any, *, wanted: Mapping[str, JsonValue], name: str) -> str:
    return str(client.api.create_container_from_config(wanted, name)["Id"])


async def _discard(link: DaemonLink, id: str) -> None:
    await asyncio.shield(link.remove_container(id))


async def _start(
    link: DaemonLink, id: str, stream: AttachStream, *, payload: bytes, most_processes: int
) -> tuple[dict[str, Any], ContainerMeter | None]:
    """Start the container and send the runner; return the daemon's description and the meter."""
    await link.ask("starting a container", lambda client: client.api.start(id))
    stream.send(payload)
    inspected: dict[str, Any] = await link.ask(
        "inspecting a container", lambda client: client.api.inspect_container(id)
    )
    if not link.is_on_this_machine:
        return inspected, None
    process = int(inspected["State"]["Pid"])
    return inspected, meter_of(process, id, resting=RESTING_PROCESSES, most_processes=most_processes)


@asynccontextmanager
async def _ending_with_container(link: DaemonLink, id: str, stream: AttachStream) -> AsyncIterator[None]:
    """Meanwhile, end the stream when the daemon says that the container has ended."""
    # For a container whose first process is unknown here, or ended before the engine saw it.
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
    """Remove orphans of dead engines, and containers of ours that could not be removed, again and again."""
    while True:
        await link.settle()
        with suppress(BackendUnavailable):
            await link.ask("looking for containers of dead engines", lambda client: Reaper(client).sweep())
        await asyncio.sleep(_SWEEP_S)


def _image(plan: BoxPlan) -> BoxImage:
    image = plan.interpreter.image
    if image is None:
        raise EnvironmentUnavailable("this environment has no image, and the container backend needs one")
    return image


def _handoff_socket(policy: Policy) -> HandoffSocket | None:
    """Return the socket for the runner's listeners; None if its calls have no network."""
    if policy.network.mode is not NetworkMode.PUBLIC:
        return None
    from sandbox.egress.handoff_socket import HandoffSocket

    return HandoffSocket(policy.network)
