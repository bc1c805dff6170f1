"""Calls share the work for a call template without sharing anything that differs between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox import AsyncSandbox, Policy, PolicyError
from sandbox.engine.plan import CallTemplate
from sandbox.environments import bare_environment
from sandbox.policy import load
from sandbox.testing.fake_backend import FakeBackend
from sandbox.tools import read_tool

SOURCE = "def first(n: int) -> int:\n    return n\n\ndef second(n: int) -> int:\n    return -n\n"


def with_fake(test: Callable[[AsyncSandbox], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def work() -> None:
            backend = FakeBackend(lambda name, arguments: [name, arguments])
            async with AsyncSandbox(backend=backend) as sandbox:
                await test(sandbox)

        asyncio.run(work())

    run.__name__ = getattr(test, "__name__", "test")
    return run


def limited(value: int) -> Policy:
    policy = load("default")
    return policy.model_copy(update={"limits": policy.limits.model_copy(update={"value": value})})


@with_fake
async def test_the_same_source_is_called_by_each_of_its_functions(sandbox: AsyncSandbox) -> None:
    for _round in range(2):
        for entry in ("first", "second"):
            outcome = await sandbox.run(SOURCE, {"n": 1}, entry=entry)
            assert (outcome.value, outcome.tool.name) == ([entry, {"n": 1}], entry)


@with_fake
async def test_each_call_is_under_its_own_policy(sandbox: AsyncSandbox) -> None:
    digests = {name: load(name).digest for name in ("default", "strict")}
    for _round in range(2):
        for name, digest in digests.items():
            outcome = await sandbox.run(SOURCE, {"n": 1}, entry="first", policy=name)
            assert outcome.receipt is not None
            assert (outcome.receipt.policy.name, outcome.receipt.policy.digest) == (name, digest)


@with_fake
async def test_a_new_policy_at_a_reused_address_is_not_mistaken(sandbox: AsyncSandbox) -> None:
    for value in range(1000, 1010):
        policy = limited(value)
        outcome = await sandbox.run(SOURCE, {"n": 1}, entry="first", policy=policy)
        assert outcome.receipt is not None
        assert outcome.receipt.policy.digest == policy.digest
        del policy, outcome


@with_fake
async def test_a_stricter_call_leaves_the_next_call_all_its_limits(sandbox: AsyncSandbox) -> None:
    granted = (await sandbox.run(SOURCE, {"n": 1}, entry="first")).receipt
    lowered = (await sandbox.run(SOURCE, {"n": 1}, entry="first", limits={"wall": "1s"})).receipt
    again = (await sandbox.run(SOURCE, {"n": 1}, entry="first")).receipt
    assert granted is not None
    assert lowered is not None
    assert granted.policy.digest == (again and again.policy.digest) != lowered.policy.digest


@with_fake
async def test_each_tenant_has_its_own_box(sandbox: AsyncSandbox) -> None:
    paths = [
        (await sandbox.run(SOURCE, {"n": 1}, entry="first", tenant=tenant)).timing.path for tenant in ("a", "b", "a")
    ]
    assert paths == ["cold", "cold", "warm"]


def test_a_template_is_made_once_per_environment() -> None:
    policy, bare = load("default"), bare_environment()
    recipe = CallTemplate(read_tool(SOURCE, entry="first"), policy, policy, policy, bare, tenant="")
    one, other = replace(bare, key="one"), replace(bare, key="other")
    assert recipe.within(one) is recipe.within(one)
    assert [recipe.within(each).box(is_plain=False)[0].environment for each in (one, other, one)] == [
        "one",
        "other",
        "one",
    ]
    assert recipe.box(is_plain=False)[0].environment == bare.key
    assert recipe.within(replace(one)) is not recipe.within(one)


@with_fake
async def test_an_invalid_limit_equal_to_a_valid_one_is_refused(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.run(SOURCE, {"n": 1}, entry="first", limits={"cpus": 1})).ok
    for wrong in (True, [1]):
        with pytest.raises(PolicyError, match="must be a whole number"):
            await sandbox.run(SOURCE, {"n": 1}, entry="first", limits={"cpus": wrong})


@with_fake
async def test_combined_limits_are_worked_out_once(sandbox: AsyncSandbox) -> None:
    made: list[CallTemplate] = []

    def counted(*parts: Any) -> CallTemplate:
        made.append(CallTemplate(*parts))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sandbox.engine.engine.CallTemplate", counted)
        for wall in ("1s", "2s", "1s", "1s"):
            assert (await sandbox.run(SOURCE, {"n": 1}, entry="first", limits={"wall": wall})).ok
    assert len(made) == 2


def test_a_policy_may_be_named_by_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("description = 'for tests'\nlimits.wall = 7")

    async def walls() -> list[float]:
        source = "def tool() -> int:\n    pass\n"
        async with AsyncSandbox(backend=FakeBackend({"tool": 1}), policy=path) as sandbox:
            calls = sandbox.run(source, {}), sandbox.run(source, {}), sandbox.run(source, policy=path)
            receipts = [(await call).receipt for call in calls]
        return [receipt.limits["wall"].value for receipt in receipts if receipt is not None]

    assert asyncio.run(walls()) == [7.0] * 3
