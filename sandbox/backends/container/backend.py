"""The container backend: boxes of containers, opened by a Docker daemon or one that speaks like it.

    engine ══ attach stream ══ daemon ── container: init ── zygote ── guard ── tool
                                              (PID 1)     (the runner)

Containers of a policy that lets boxes be used again stay open, and the runner in them forks a child for each call, in
namespaces of that call's own. For a policy that does not, a container is opened for one call and is itself the wall.

Opening one takes the daemon a tenth of a second or two; the pool opens them ahead. Whatever happens to the engine, a
container ends by itself when the attach stream does, and what is left of it then is removed by the next engine's reaper.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sandbox.backends.base import Backend, BoxPlan
from sandbox.backends.container.attach import attach
from sandbox.backends.container.box import ContainerBox, LastWords
from sandbox.backends.container.daemon_link import DaemonLink, open_link
from sandbox.backends.container.delivery import command, package
from sandbox.backends.container.hardening import Container, document, draw_user, is_single_use
from sandbox.backends.container.inspection import is_machine, protection
from sandbox.backends.container.seccomp import docker_profile
from sandbox.backends.container.walls import walls
from sandbox.errors import BackendUnavailable, EnvironmentUnavailable, IsolationUnavailable
from sandbox.policy import NetworkMode, Strength

_GVISOR: Final = "runsc"


class ContainerBackend(Backend):
    """Opens boxes of containers; `host` as in DOCKER_HOST, `runtime` one of those the daemon has."""

    name = "container"
    needs_images = True

    def __init__(self, *, host: str | None = None, runtime: str | None = None) -> None:
        self._host = host
        self._runtime = runtime
        self._link: asyncio.Task[DaemonLink] | None = None

    async def link(self) -> DaemonLink:
        """The link to the daemon, made once; not being there now does not mean never."""
        if self._link is None or (self._link.done() and self._link.exception()):
            self._link = asyncio.create_task(asyncio.to_thread(open_link, self._host))
        return await asyncio.shield(self._link)

    async def daemon(self) -> DaemonLink:
        return await self.link()

    async def open(self, plan: BoxPlan) -> ContainerBox:
        _refuse_what_cannot_be(plan)
        link = await self.link()
        runtime = self._choose_runtime(plan, link)
        image = plan.interpreter.image
        if image is None:
            raise EnvironmentUnavailable("this environment has no image, and containers need one")
        user = draw_user(is_mapped=link.facts.maps_users)
        profile = docker_profile("strict" if is_single_use(plan.policy) else "runner", machine=link.facts.machine)
        container = Container(
            image=image.id,
            command=command(),
            user=user,
            labels={"sandbox.owner": "x"},
            seccomp=profile,
            runtime=runtime,
            mounts=() if image.holds_environment else plan.places(),
            host_cpus=link.facts.cpus,
            counts_threads_of_its_own=is_machine(runtime),
        )
        wanted = document(container, plan.policy)
        made = await link.ask("making a container", lambda client: client.api.create_container_from_config(wanted))
        id, words = str(made["Id"]), LastWords()
        try:
            stream = await attach(link.address, id, on_stderr=words.add)
            await link.ask("starting a container", lambda client: client.api.start(id))
            stream.send(package(image.magic))
            said: dict[str, Any] = await link.ask(
                "looking at a container", lambda client: client.api.inspect_container(id)
            )
            return ContainerBox(
                id,
                stream,
                protection=protection(said, policy=plan.policy, backend=self.name, is_metered=False),
                walls=walls(plan, user=user, is_metered=False, machine=link.facts.machine),
                meter=None,
                last_words=words,
                remove=link.remove_container,
            )
        except BaseException:
            await asyncio.shield(link.remove_container(id))
            raise

    def _choose_runtime(self, plan: BoxPlan, link: DaemonLink) -> str:
        """What was asked for; otherwise gVisor for policies that want a kernel of the box's own."""
        facts = link.facts
        wanted = self._runtime
        if wanted is None and plan.policy.isolation.minimum >= Strength.MACHINE:
            wanted = _GVISOR
        runtime = wanted or facts.default_runtime
        if runtime not in facts.runtimes:
            raise IsolationUnavailable(
                f"the daemon has no runtime {runtime[:80]!r}; it has {', '.join(facts.runtimes)[:300]}",
                missing=(runtime[:80],),
                remedy="register it in the daemon's `runtimes`, or choose another",
            )
        return runtime

    async def close(self) -> None:
        if self._link is not None and not self._link.done():
            await asyncio.wait({self._link})
        if self._link is not None and not self._link.exception():
            self._link.result().close()


def _refuse_what_cannot_be(plan: BoxPlan) -> None:
    policy = plan.policy
    if policy.network.mode is not NetworkMode.NONE:
        raise IsolationUnavailable(
            f"policy '{policy.name}' lets tools reach {policy.network.mode.value} addresses, "
            "and containers have no network at all",
            missing=("egress filter",),
            remedy="use a policy with network.mode 'none'",
        )
    if any(shown.is_writable for shown in plan.shown):
        raise BackendUnavailable("containers are shown nothing of the host that they could write to")
