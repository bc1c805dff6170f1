"""Containers keep the contract under every runtime, kept for many calls or opened for one.

Each variant has one engine, open from its first check to the end, in whatever order they are tried. `_NEVER_WARM`
and `_A_KERNEL_OF_ITS_OWN` list the checks that do not apply to a variant, with the reason. The tests below check
instead that a single-use container belongs to one call alone, before, during and after that call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from sandbox.backends.base import Box
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.box import ContainerBox
from sandbox.images import BaseImage
from sandbox.outcome import Status
from sandbox.policy import Policy, ReuseMode, load
from sandbox.testing.contract import (
    CHECKS,
    Check,
    Subject,
    cancelling,
    endings,
    expect,
    isolation,
    lifecycle,
    limits,
    run_check,
)
from sandbox.testing.contract.subject import until

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(400, func_only=True)]

Reasons: TypeAlias = Mapping[Check, str]

LONGEST_S: Final = 300.0
"""Opening a container under gVisor takes seconds on a busy machine, and some checks open dozens."""

_NO_BOX_IS_WARM: Final = "no box is there for a second call"
_NEVER_WARM: Final[Reasons] = {
    lifecycle.check_a_second_call_finds_the_box_warm: _NO_BOX_IS_WARM,
    lifecycle.check_a_prepared_box_is_warm_for_the_first_call: "its outcome says pooled",
    lifecycle.check_tenants_do_not_share_a_box: _NO_BOX_IS_WARM,
    isolation.check_what_a_call_leaves_is_not_there_for_the_next: _NO_BOX_IS_WARM,
    isolation.check_who_kills_everything_reaches_only_itself: _NO_BOX_IS_WARM,
}
_PROCESSES_INSIDE: Final = "its processes are gVisor's own, and not among the host's"
_A_KERNEL_OF_ITS_OWN: Final[Reasons] = {
    endings.check_a_timeout_ends_children_and_their_orphans: _PROCESSES_INSIDE,
    endings.check_what_a_call_leaves_running_ends_with_it: _PROCESSES_INSIDE,
    cancelling.check_cancelling_ends_what_the_call_started: _PROCESSES_INSIDE,
    limits.check_the_number_of_files: "gVisor's tmpfs counts no inodes",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """Containers of one runtime under one kind of policy."""

    runtime: str
    is_single_use: bool = False
    ahead: int = 1
    """How many are opened before their calls; each check with limits of its own has those opened for it."""
    many: int = 64
    """How many calls are many, of which sixteen are under way at once."""
    not_asked: Reasons = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.runtime}-{'single-use' if self.is_single_use else 'kept'}"

    def policy(self) -> Policy:
        """`default`, with what makes `strict` single-use: the limits that checks go by are the same."""
        policy, strict = load("default"), load("strict")
        if not self.is_single_use:
            return policy
        reuse = policy.reuse.model_copy(update={"mode": strict.reuse.mode, "ahead": self.ahead})
        return policy.model_copy(update={"reuse": reuse, "isolation": strict.isolation})


VARIANTS: Final = (
    Variant("runc"),
    Variant("crun"),
    Variant("runc", is_single_use=True, many=24, not_asked=_NEVER_WARM),
    Variant("runsc", is_single_use=True, ahead=0, many=16, not_asked={**_NEVER_WARM, **_A_KERNEL_OF_ITS_OWN}),
)
ASKED: Final = [(variant, check) for variant in VARIANTS for check in CHECKS if check not in variant.not_asked]


def _name(value: object) -> str:
    return getattr(value, "__name__", str(value)).removeprefix("check_")


every_single_use = pytest.mark.parametrize(
    "variant", [each for each in VARIANTS if each.is_single_use], ids=_name, indirect=True
)


@dataclass(frozen=True, slots=True)
class Tried:
    """A variant's engine, and the loop it lives on."""

    subject: Subject
    loop: asyncio.Runner
    client: DockerClient

    def run(self, check: Check) -> None:
        """Try one check."""
        self.loop.run(run_check(check, self.subject, within_s=LONGEST_S))

    def are_gone(self, boxes: Sequence[Box]) -> bool:
        """Whether the daemon has none of them any more."""
        return _containers(self.client).isdisjoint(map(_id, boxes))


@pytest.fixture(scope="module")
def opened(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage
) -> Iterator[Callable[[Variant], Tried]]:
    """A variant's engine, opened when it is first asked for; afterwards the daemon has no container of any."""
    before, found = _containers(docker_client), dict[str, Tried]()
    with ExitStack() as kept:

        def open_once(asked: Variant) -> Tried:
            if str(asked) not in found:
                found[str(asked)] = kept.enter_context(_opened(asked, docker_daemon, docker_client))
            return found[str(asked)]

        yield open_once
    assert _containers(docker_client) <= before


@contextmanager
def _opened(asked: Variant, host: str, client: DockerClient) -> Iterator[Tried]:
    subject = Subject(
        lambda: ContainerBackend(host=host, runtime=asked.runtime),
        losses=_losses(client),
        policy=asked.policy(),
        many=asked.many,
    )
    with asyncio.Runner() as loop:
        yield Tried(subject, loop, client)
        loop.run(subject.close())


@pytest.fixture
def variant(request: pytest.FixtureRequest, opened: Callable[[Variant], Tried]) -> Tried:
    """Return the engine of one of `VARIANTS`."""
    return opened(request.param)


def _containers(client: DockerClient) -> set[str]:
    return {found["Id"] for found in client.api.containers(all=True)}


def _id(box: Box) -> str:
    assert isinstance(box, ContainerBox)
    return box.id


def _losses(client: DockerClient) -> tuple[Callable[[Box], None], ...]:
    """Return two ways to lose a container to another user of the daemon: killed, and removed."""

    def kill(box: Box) -> None:
        client.api.kill(_id(box))
        client.api.wait(_id(box))

    def remove(box: Box) -> None:
        client.api.remove_container(_id(box), force=True)

    return kill, remove


@pytest.mark.parametrize(("variant", "check"), ASKED, ids=_name, indirect=["variant"])
def test_containers(variant: Tried, check: Check) -> None:
    variant.run(check)


@every_single_use
def test_the_next_call_finds_nothing_of_the_one_before(variant: Tried) -> None:
    async def check(subject: Subject) -> None:
        async with subject.engine() as engine:
            expect.ok(await engine.sandbox.run(isolation.LITTER))
            for tenant in ("", "another"):
                outcome = expect.ok(await engine.sandbox.run(isolation.LOOK, tenant=tenant))
                expect.same(outcome.value, [False, False, False])
                expect.that(outcome.timing.path in ("cold", "pooled"), f"its box was {outcome.timing.path}")

    variant.run(check)


@every_single_use
def test_a_tool_that_kills_everything_reaches_only_its_own_call(variant: Tried) -> None:
    async def check(subject: Subject) -> None:
        async with subject.engine() as engine:
            other = cancelling.Running(engine.sandbox)
            await other.begun()
            await engine.sandbox.run(isolation.KILL_ALL)
            expect.ok(await engine.sandbox.run(isolation.ECHO, {"value": 1}))
            expect.that(not other.task.done(), "the other call ended")
            other.task.cancel()

    variant.run(check)


@every_single_use
def test_a_container_is_gone_with_its_call_and_all_leftovers(variant: Tried) -> None:
    policy = variant.subject.policy_with("reuse", mode=ReuseMode.NEVER, ahead=0)
    tool: dict[str, Any] = {"source": endings.DAEMON, "policy": policy}

    async def check(subject: Subject) -> None:
        async with subject.engine() as engine:
            left = await engine.sandbox.run(args={"marker": "left", "hangs": False}, **tool)
            expect.ok(left)
            out_of_time = await engine.sandbox.run(args={"marker": "m", "hangs": True}, limits={"wall": 2}, **tool)
            expect.ended(out_of_time, Status.TIMEOUT, limit_name="wall")
            expect.same(len(engine.boxes), 2)
            await until(lambda: variant.are_gone(engine.boxes), message="a container is still there")

    variant.run(check)
