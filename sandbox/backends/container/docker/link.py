"""The connection of an engine to a daemon: facts about the daemon, and blocking requests in threads of their own."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sandbox.backends.container.docker.address import Address, find_address
from sandbox.backends.container.docker.client import check_socket, connect, is_podman
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.config import EnvironmentForm
from sandbox.errors import BackendUnavailable, IsolationUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

Result = TypeVar("Result")

_THREADS: Final = 8
_MAX_SILENCE_S: Final = 10.0
"""The silence of a daemon after which a closing engine stops waiting for it."""
_MAY_APPEAR_S: Final = 600.0
"""The time in which a container may still appear after a request without an answer."""
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""The names of machines that Podman uses, and those that Docker uses."""
_GONE: Final = 404
_BUSY: Final = 409


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """A daemon's description of itself."""

    id: str
    host: str
    machine: str
    cpus: int
    runtimes: tuple[str, ...]
    default_runtime: str
    kernel: str
    maps_users: bool
    is_podman: bool


@dataclass(slots=True)
class DaemonLink:
    """A connection to a daemon; `open_link` opens it."""

    client: DockerClient
    address: Address
    facts: DaemonFacts
    form: EnvironmentForm = "auto"
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS, "docker"))
    _under_way: set[Future[Any]] = field(default_factory=set)
    _files: dict[str, int] = field(default_factory=dict)
    _unwanted: set[str] = field(default_factory=set)
    """Containers of ours that the daemon could not remove yet."""
    _unawaited: set[asyncio.Future[Any]] = field(default_factory=set)
    """Requests without a caller that waits for their answer."""
    _may_appear: dict[str, float] = field(default_factory=dict)
    """Names of containers that a request without an answer may have created, and until when they may appear."""
    _last_contact: float = field(default_factory=time.monotonic)
    """The time of the last request or answer."""

    @property
    def is_on_this_machine(self) -> bool:
        """Return whether the daemon is on this machine."""
        # Compare name and kernel, too: a forwarded socket may lead to another machine.
        facts, here = self.facts, os.uname()
        return self.address.is_socket and (facts.host, facts.kernel) == (socket.gethostname(), here.release)

    @property
    def sees_our_files(self) -> bool:
        """Return whether its containers mount the store's folders: by configuration, or by the daemon's place."""
        return self.form == "mount" or (self.form == "auto" and self.is_on_this_machine)

    async def ask(self, doing: str, question: Callable[[DockerClient], Result]) -> Result:
        """Ask the daemon in a thread; failures are translated, with a phrase such as "starting a container"."""

        def answer() -> Result:
            with translate_failures(doing, host=self.address.url):
                check_socket(self.address.url)
                return question(self.client)

        self._last_contact = time.monotonic()
        asked = self._threads.submit(answer)
        self._under_way.add(asked)
        asked.add_done_callback(self._note_answer)
        return await asyncio.wrap_future(asked)

    def profile_option(self, profile: str) -> str:
        """Return the security option with a system-call profile."""
        # Podman reads profiles from files. A memfd has no name that other users could open, and ends with this process.
        if not self.facts.is_podman:
            return f"seccomp={profile}"
        if not self.is_on_this_machine:
            raise IsolationUnavailable(
                f"Podman at {self.address.url[:200]} is elsewhere and takes no system call profile from here",
                missing=("seccomp",),
                remedy="use Docker there, or Podman on this machine",
            )
        if profile not in self._files:
            self._files[profile] = os.memfd_create("seccomp")
            os.write(self._files[profile], profile.encode())
        return f"seccomp=/proc/{os.getpid()}/fd/{self._files[profile]}"

    async def make_container(self, make: Callable[[DockerClient], str], *, name: str) -> str:
        """Create a container with `make` under that name, and return its id.

        A cancelled caller leaves no container behind, and neither does a request without an answer.
        """
        making = asyncio.ensure_future(self._make(make, name))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._want_no_more)
            if not await self._is_answered(making):
                self._note_that_it_may_appear(name)
            await self._is_answered(asyncio.ensure_future(self.settle()))
            raise

    async def remove_container(self, id: str) -> None:
        """Kill and remove a container with its volumes; `settle` tries again if that fails or takes too long."""
        if not await self._is_answered(asyncio.ensure_future(self._remove(id))):
            self._unwanted.add(id)

    @property
    def has_unwanted(self) -> bool:
        """Return whether `settle` has something to do."""
        return bool(self._unwanted or self._may_appear)

    async def settle(self) -> None:
        """Remove containers that could not be removed before, or that appeared after a request without an answer."""
        for id in [*self._unwanted]:
            if not await self._remove(id):
                return
        with suppress(BackendUnavailable):
            for name, until in [*self._may_appear.items()]:
                was_there = await self.ask("removing a container", partial(_remove, id=name))
                if was_there or time.monotonic() > until:
                    self._may_appear.pop(name, None)

    async def close(self) -> None:
        """Close the connection after the pending answers and `settle`; do not wait long for a silent daemon.

        The threads of pending requests end when the daemon answers or closes its connections.
        """
        answers = asyncio.gather(*map(asyncio.wrap_future, self._under_way), return_exceptions=True)
        if await self._is_answered(answers):
            await self._is_answered(asyncio.ensure_future(self.settle()))
        for asking in self._unawaited:
            asking.cancel()
        await asyncio.gather(*self._unawaited, return_exceptions=True)
        self._threads.shutdown(wait=False)
        self.client.close()
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    async def _make(self, make: Callable[[DockerClient], str], name: str) -> str:
        from docker.errors import APIError

        try:
            return await self.ask("making a container", make)
        except BackendUnavailable as error:
            if not isinstance(error.__cause__, APIError):
                self._note_that_it_may_appear(name)
            raise

    async def _remove(self, id: str) -> bool:
        """Remove a container, and return whether that worked."""
        try:
            await self.ask("removing a container", partial(_remove, id=id))
        except BackendUnavailable:
            self._unwanted.add(id)
            return False
        self._unwanted.discard(id)
        return True

    async def _is_answered(self, asking: asyncio.Future[Any]) -> bool:
        """Wait for an answer, and return False if the daemon has been silent for too long."""
        while not asking.done():
            patience_s = self._last_contact + _MAX_SILENCE_S - time.monotonic()
            if patience_s <= 0:
                self._unawaited.add(asking)
                asking.add_done_callback(self._unawaited.discard)
                return False
            await asyncio.wait([asking], timeout=patience_s)
        return True

    def _note_answer(self, asked: Future[Any]) -> None:
        self._under_way.discard(asked)
        self._last_contact = time.monotonic()

    def _note_that_it_may_appear(self, name: str) -> None:
        self._may_appear[name] = time.monotonic() + _MAY_APPEAR_S

    def _want_no_more(self, made: asyncio.Future[str]) -> None:
        if not made.cancelled() and made.exception() is None:
            self._unwanted.add(made.result())


async def link_to(host: str | None = None, *, form: EnvironmentForm = "auto") -> DaemonLink:
    """Open a link in a daemon thread, so that neither a cancelled caller nor the end of the program waits for it."""
    opening = Future[DaemonLink]()
    threading.Thread(target=_open_for, args=(opening, host, form), name="docker", daemon=True).start()
    return await asyncio.wrap_future(opening)


def _open_for(opening: Future[DaemonLink], host: str | None, form: EnvironmentForm) -> None:
    try:
        link = open_link(host, form=form)
    except BaseException as error:
        if opening.set_running_or_notify_cancel():
            opening.set_exception(error)
        return
    if opening.set_running_or_notify_cancel():
        opening.set_result(link)
    else:
        link.client.close()


def open_link(host: str | None = None, *, form: EnvironmentForm = "auto") -> DaemonLink:
    """Open a link; block until the daemon answers, and raise `BackendUnavailable` if it does not."""
    address = find_address(host)
    client = connect(host)
    try:
        with translate_failures("asking what it is", host=address.url):
            facts = _facts(client.info(), is_podman=is_podman(client))
    except BaseException:
        client.close()
        raise
    return DaemonLink(client, address, facts, form)


def _facts(said: Mapping[str, Any], *, is_podman: bool) -> DaemonFacts:
    if str(said.get("OSType", "linux")) != "linux":
        raise BackendUnavailable(
            "this daemon runs no Linux containers", remedy="use a daemon that runs Linux containers"
        )
    options = [str(option) for option in said.get("SecurityOptions") or ()]
    return DaemonFacts(
        id=str(said.get("ID", "")),
        host=str(said.get("Name", "")),
        machine=_MACHINES.get(machine := str(said.get("Architecture", "")), machine),
        cpus=int(said.get("NCPU") or 1),
        runtimes=tuple(sorted(said.get("Runtimes") or ())),
        default_runtime=str(said.get("DefaultRuntime") or "runc"),
        kernel=str(said.get("KernelVersion", "")),
        maps_users=any("name=userns" in option or "name=rootless" in option for option in options),
        is_podman=is_podman,
    )


def _remove(client: DockerClient, *, id: str) -> bool:
    """Remove a container, and return whether it existed."""
    from docker.errors import APIError

    try:
        client.api.remove_container(id, v=True, force=True)
    except APIError as error:
        if error.status_code not in (_GONE, _BUSY):
            raise
        return error.status_code != _GONE
    return True
