"""What a tool's source asks for under `[tool.sandbox]`: less than its caller's policy grants, never more."""

from __future__ import annotations

import pytest

from sandbox import Sandbox
from sandbox.errors import IsolationUnavailable, PolicyError
from sandbox.policy import load
from sandbox.testing import FakeBackend

BODY = "import time\n\ndef tool(s: float = 0.0) -> str:\n    time.sleep(s)\n    return 'done'\n"


def asking(**settings: object) -> str:
    """A source that asks for these."""
    lines = [f'# {name} = "{value}"' for name, value in settings.items()]
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
    assert "none of those that a source can name" in refusal.value.message
    assert "strict" in str(refusal.value.remedy)
