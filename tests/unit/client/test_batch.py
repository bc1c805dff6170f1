"""A batch reads its arguments as calls come to their turns, and reports all outcomes however it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox, BatchCancelled, Outcome, Sandbox, SpecError, Status
from sandbox.testing import FakeBackend, hangs, prints, returns, script
from tests.virtual_time import run

TOOL: Final = "def tool(n: int) -> int:\n    pass\n"
MANY: Final = 500


def _sandbox(**settings: Any) -> AsyncSandbox:
    """Return a sandbox whose tool returns a number; from 100 on, the tool prints and never ends."""

    def answer(n: int) -> Any:
        return returns(n) if n < 100 else script(prints("here\n"), hangs())

    return AsyncSandbox(backend=FakeBackend({"tool": answer}), **settings)


def outcomes_in(error: BaseException) -> list[Outcome | None]:
    found = BatchCancelled.of(error)
    assert found is not None
    return found.outcomes


def _counted(drawn: list[int], *, first: int = 0) -> Iterator[dict[str, int]]:
    for number in range(first, first + MANY):
        drawn.append(number)
        yield {"n": number}


def test_arguments_are_read_as_calls_come_to_their_turns() -> None:
    async def scene() -> None:
        drawn: list[int] = []
        async with _sandbox(concurrency=3) as sandbox:
            task = asyncio.create_task(sandbox.map(TOOL, _counted(drawn, first=100)))
            await asyncio.sleep(10)
            assert 3 <= len(drawn) <= 7
            task.cancel()
            await asyncio.wait([task])

    run(scene())


def test_outcomes_are_in_the_order_of_the_arguments() -> None:
    with Sandbox(backend=FakeBackend({"tool": lambda n: n}), concurrency=3) as sandbox:
        outcomes = sandbox.map(TOOL, _counted([]))
    assert [outcome.value for outcome in outcomes] == list(range(MANY))


def test_an_argument_may_use_the_result_of_an_earlier_call() -> None:
    threads = set[int]()
    with Sandbox(backend=FakeBackend({"tool": lambda n: returns(n + 1)})) as sandbox:

        def asked() -> Iterator[dict[str, object]]:
            for number in range(3):
                threads.add(threading.get_ident())
                yield {"n": sandbox.run(TOOL, {"n": number}).value}

        assert [outcome.value for outcome in sandbox.map(TOOL, asked())] == [2, 3, 4]
    assert threads == {threading.get_ident()}


def test_waiting_for_the_own_engine_is_an_error() -> None:
    found: list[SpecError] = []

    def answer(n: int) -> object:
        with pytest.raises(SpecError) as refused:
            sandbox.run(TOOL, {"n": n})
        found.append(refused.value)
        return returns(n)

    with Sandbox(backend=FakeBackend({"tool": answer})) as sandbox:
        assert sandbox.run(TOOL, {"n": 1}).value == 1
    assert "cannot wait for itself" in found[0].message


def test_the_end_of_a_batch_reports_the_calls_until_then() -> None:
    async def scene() -> None:
        async with _sandbox(concurrency=2) as sandbox:
            task = asyncio.create_task(sandbox.map(TOOL, [{"n": 1}, {"n": 100}, {"n": 2}, {"n": 100}, {"n": 100}]))
            await asyncio.sleep(10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await task
            outcomes = outcomes_in(cancelled.value)
            ended = [outcome and outcome.status for outcome in outcomes]
            assert ended == [Status.OK, Status.CANCELLED, Status.OK, Status.CANCELLED, None]
            assert outcomes[1] is not None
            assert outcomes[1].stdout.text == "here\n"

    run(scene())


@pytest.mark.parametrize("bad", [7, [("n", 1)], None])
def test_an_argument_that_is_no_mapping_is_named_by_its_place(bad: Any) -> None:
    with Sandbox(backend=FakeBackend({"tool": lambda n: n})) as sandbox, pytest.raises(SpecError) as refused:
        sandbox.map(TOOL, [{"n": 1}, {"n": 2}, bad])
    assert "args[2] must be a mapping" in refused.value.message
    assert len(outcomes_in(refused.value)) == 2


def test_an_error_of_the_arguments_propagates() -> None:
    def asked() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        raise LookupError("no more")

    with Sandbox(backend=FakeBackend({"tool": lambda n: n})) as sandbox:
        with pytest.raises(LookupError, match="no more"):
            sandbox.map(TOOL, asked())
        assert sandbox.run(TOOL, {"n": 2}).value == 2
