"""The source of a tool may ask under `[tool.sandbox]` for less than its caller's policy grants, never for more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from sandbox import AsyncSandbox, Sandbox
from sandbox.errors import IsolationUnavailable, PolicyError
from sandbox.policy import Supply, load
from sandbox.testing import FakeBackend, hangs
from tests import virtual_time

BODY = "import time\n\ndef tool(s: float = 0.0) -> str:\n    time.sleep(s)\n    return 'done'\n"


def asking(**settings: object) -> str:
    """A source that asks for these."""
    lines = [f"# {name} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join(["# /// script", "# dependencies = []", "#", "# [tool.sandbox]", *lines, "# ///", "", BODY])


@pytest.mark.slow
def test_a_tool_ends_after_the_time_that_its_source_asks_for() -> None:
    with Sandbox() as sandbox:
        assert sandbox.run(asking(timeout="20s"), {"s": 0}).value == "done"
        outcome = sandbox.run(asking(timeout="300ms"), {"s": 60})
    assert (outcome.status, outcome.evidence["limit"]) == ("timeout", 0.3)


@pytest.mark.slow
def test_what_the_call_says_counts_before_the_source() -> None:
    with Sandbox() as sandbox:
        outcome = sandbox.run(asking(timeout="100ms"), {"s": 0.3}, limits={"wall": "20s"})
        assert outcome.value == "done"


def test_a_source_gets_no_more_time_than_its_policy_grants() -> None:
    with Sandbox(backend=FakeBackend({"tool": "done"})) as sandbox:
        outcome = sandbox.run(asking(timeout="10h"))
    assert outcome.receipt is not None
    assert outcome.receipt.limits["wall"].value == load("default").limits.wall


def test_a_source_can_ask_for_a_stricter_policy() -> None:
    with Sandbox(backend=FakeBackend({"tool": "done"})) as sandbox:
        outcome = sandbox.run(asking(policy="strict"))
        assert outcome.receipt is not None
        assert outcome.receipt.policy.name == "strict"


def test_a_source_keeps_the_package_sources_of_its_callers_policy() -> None:
    supply = Supply(indexes=("https://index.example/simple",), wheelhouse=("/srv/wheels",), offline=True)
    granted = load("default").model_copy(update={"supply": supply})
    with Sandbox(backend=FakeBackend({"tool": "done"}), policy=granted) as sandbox:
        outcome = sandbox.run(asking(policy="strict"))
    expected = load("strict").model_copy(update={"supply": supply})
    assert outcome.receipt is not None
    assert (outcome.receipt.policy.name, outcome.receipt.policy.digest) == ("strict", expected.digest)


def test_a_box_that_is_not_strict_enough_for_the_source_is_refused() -> None:
    with Sandbox(backend="subprocess") as sandbox, pytest.raises(IsolationUnavailable, match="strict"):
        sandbox.run(asking(policy="strict"))


@pytest.mark.parametrize("name", ["trusted", "batch", "network"])
def test_a_source_cannot_ask_for_more_than_is_granted(name: str) -> None:
    more = f"asks for policy '{name}', which is more than 'default' grants"
    with Sandbox(backend=FakeBackend({"tool": "done"})) as sandbox, pytest.raises(PolicyError, match=more):
        sandbox.run(asking(policy=name))


@pytest.mark.parametrize("name", ["/etc/passwd", "../default.toml", "no-such-policy", "./strict.toml"])
def test_a_source_leads_to_no_file_of_the_host(name: str) -> None:
    with Sandbox(backend=FakeBackend({"tool": "done"})) as sandbox, pytest.raises(PolicyError) as refusal:
        sandbox.run(asking(policy=name))
    assert "names an unknown policy" in refusal.value.message
    assert "strict" in str(refusal.value.remedy)


async def _until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def _begun_of_two(source: str, *, tenants: tuple[str, str]) -> tuple[int, int]:
    """How many of two calls that hang are begun while both are wanted, and when the first was given up."""
    backend = FakeBackend({"tool": hangs(), "other": "done"})
    async with AsyncSandbox(backend=backend) as sandbox:
        calls = [asyncio.create_task(sandbox.run(source, tenant=tenant)) for tenant in tenants]
        await _until(lambda: backend.calls)
        assert (await sandbox.run("def other(): ...\n")).value == "done"
        begun = sum(call.name == "tool" for call in backend.calls)
        calls[0].cancel()
        await _until(lambda: calls[0].done() and sum(call.name == "tool" for call in backend.calls) == 2)
        calls[1].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    return begun, sum(call.name == "tool" for call in backend.calls)


ALONE = asking(enable_parallel_execution=False)


@pytest.mark.parametrize(
    ("source", "tenants", "begun"),
    [
        (ALONE, ("a", "a"), 1),
        (BODY.replace("def tool", "@tool(enable_parallel_execution=False)\ndef tool"), ("a", "a"), 1),
        (ALONE, ("a", "b"), 2),
        (asking(enable_parallel_execution=True), ("a", "a"), 2),
        (asking(), ("a", "a"), 2),
    ],
    ids=["said in the block", "said by the decorator", "of two tenants", "allowed", "not said"],
)
def test_calls_of_a_tool_that_is_not_reentrant_run_one_after_another(
    source: str, tenants: tuple[str, str], begun: int
) -> None:
    assert virtual_time.run(_begun_of_two(source, tenants=tenants)) == (begun, 2)
