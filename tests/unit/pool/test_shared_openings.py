"""Callers that wait for the same failing box each get an error of their own."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from sandbox import AsyncSandbox, CallNotStarted, IsolationUnavailable
from sandbox.backends.base import BoxPlan
from sandbox.policy import load
from sandbox.testing import FakeBackend, FakeBox

TOOL: Final = "def tool() -> int:\n    pass\n"


class _Dying(FakeBox):
    """A box that dies at the first message."""

    def send(self, data: bytes, descriptors: object = ()) -> None:
        self.lose()


class _Mortal(FakeBackend):
    """A backend whose first boxes die while they open."""

    def __init__(self, deaths: int) -> None:
        super().__init__({"tool": 7})
        self._deaths = deaths

    async def open(self, plan: BoxPlan) -> FakeBox:
        if not self._deaths:
            return await super().open(plan)
        self._deaths -= 1
        self.boxes.append(_Dying(self, plan))
        return self.boxes[-1]


async def _ends(backend: FakeBackend, *policies: str) -> list[object]:
    """Return the endings of calls that begin at once, under copies of a single policy with these names."""
    granted = load("default")
    async with AsyncSandbox(backend=backend) as sandbox:
        calls = [sandbox.run(TOOL, policy=granted.model_copy(update={"name": name})) for name in policies]
        return list(await asyncio.gather(*calls, return_exceptions=True))


def test_a_box_that_dies_while_opening_is_retried_once_for_all_callers() -> None:
    backend = _Mortal(deaths=1)
    ends = asyncio.run(_ends(backend, *["default"] * 5))
    assert [getattr(end, "value", end) for end in ends] == [7] * 5
    assert len(backend.boxes) == 2


def test_callers_without_a_box_after_the_retry_get_their_own_error() -> None:
    ends = asyncio.run(_ends(_Mortal(deaths=2), *["default"] * 5))
    assert len({id(end) for end in ends}) == 5
    for end in ends:
        assert isinstance(end, CallNotStarted)
        assert end.retryable
        assert "call again" in (end.remedy or "")


def test_a_refusal_names_the_policy_of_its_caller() -> None:
    ends = asyncio.run(_ends(FakeBackend(missing=["cgroup", "seccomp"]), "one", "other"))
    for name, end in zip(("one", "other"), ends, strict=True):
        assert isinstance(end, IsolationUnavailable)
        assert f"policy '{name}' cannot be enforced" in end.message == end.args[0]
        assert end.missing == ("seccomp",)


def test_an_impossible_box_is_refused_when_the_call_is_prepared() -> None:
    async def scene() -> None:
        async with AsyncSandbox(backend=_Mortal(deaths=1)) as sandbox:
            with pytest.raises(CallNotStarted, match="call again"):
                await sandbox.prepare(TOOL)
            assert (await sandbox.run(TOOL)).value == 7

    asyncio.run(scene())
