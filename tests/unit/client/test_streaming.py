"""A stream follows its reader's pace, keeps little, and ends its call when left; in virtual time, over the fake."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from sandbox import AsyncSandbox, EngineClosed, Finished, Printed, Progress, Sandbox, SourceError, Status
from sandbox.client.stream import Event, _Piece, _Untaken
from sandbox.policy import SlowReader, load
from sandbox.protocol.flow_control import CREDIT
from sandbox.protocol.frames import FrameReader, Stream
from sandbox.testing import FakeBackend, FakeBox, gives, hangs, loses_box, prints, returns, script
from tests import virtual_time

DEFAULT = load("default")
UNPACED = DEFAULT.model_copy(
    update={
        "output": DEFAULT.output.model_copy(update={"slow_reader": SlowReader.SKIP}),
        "limits": DEFAULT.limits.model_copy(update={"output_rate": 1 << 40}),
    }
)
TOOL = "def tool():\n    pass\n"


def streaming(answer: Any, **settings: Any) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Run the test with a sandbox whose tool has this answer."""

    def decorate(test: Callable[[AsyncSandbox, FakeBackend], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def live() -> None:
            backend = FakeBackend({"tool": answer})
            async with AsyncSandbox(backend=backend, **settings) as sandbox:
                await test(sandbox, backend)
            assert backend.open_boxes == ()

        def run() -> None:
            virtual_time.run(live())

        run.__name__ = test.__name__
        run.__module__ = test.__module__
        return run

    return decorate


def text_of(events: list[Event], stream: str) -> str:
    return "".join(event.text for event in events if isinstance(event, Printed) and event.stream == stream)


@streaming(script(prints("a\n", stderr="b\n"), prints("c\n"), returns(7)))
async def test_a_stream_yields_the_output_and_then_the_outcome(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    events = [event async for event in sandbox.stream(TOOL)]
    last = events.pop()
    assert isinstance(last, Finished)
    assert (last.outcome.value, last.outcome.stdout.text) == (7, "a\nc\n")
    assert (text_of(events, "stdout"), text_of(events, "stderr")) == ("a\nc\n", "b\n")


@streaming(returns(7))
async def test_a_tool_that_prints_nothing_has_one_event(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    assert [type(event) for event in [event async for event in sandbox.stream(TOOL)]] == [Finished]


@streaming(script(prints("é".encode()[:1]), prints("é".encode()[1:], stderr=b"\xff"), prints(b"\xe2\x82")))
async def test_split_characters_are_joined_and_broken_ones_replaced(
    sandbox: AsyncSandbox, backend: FakeBackend
) -> None:
    events = [event async for event in sandbox.stream(TOOL)]
    assert (text_of(events, "stdout"), text_of(events, "stderr")) == ("é\ufffd", "\ufffd")


@streaming(script(prints("x" * (8 << 20)), returns("done")))
async def test_nothing_is_granted_before_the_reader_takes_something(
    sandbox: AsyncSandbox, backend: FakeBackend
) -> None:
    async with aclosing(sandbox.stream(TOOL)) as events:
        first = await anext(events)
        granted = _granted(backend.boxes[0])
        await asyncio.sleep(20)
        assert granted == []
        total = len(first.text) if isinstance(first, Printed) else 0
        assert total <= CREDIT
        async for event in events:
            total += len(event.text) if isinstance(event, Printed) else 0
    assert total == 8 << 20
    assert 7 << 20 <= sum(granted) <= 8 << 20


def _granted(box: FakeBox) -> list[int]:
    """Record the amounts granted from now on."""
    amounts: list[int] = []
    send, reader = box.send, FrameReader()

    def listening(data: bytes, descriptors: Any = ()) -> None:
        for frame in reader.feed(data):
            message = json.loads(frame) if isinstance(frame, bytes) else {}
            if message.get("type") == "grant":
                amounts.append(message["bytes"])
        send(data, descriptors)

    box.send = listening  # type: ignore[method-assign]
    return amounts


@streaming(script(prints("x" * (8 << 20)), *[prints("z" * (1 << 20))] * 2, returns("done")), policy=UNPACED)
async def test_a_policy_lets_a_call_go_on_without_its_reader(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    async with aclosing(sandbox.stream(TOOL, limits={"wall": 5})) as events:
        first = await anext(events)
        assert isinstance(first, Printed)
        await asyncio.sleep(20)
        rest = [event async for event in events]
    assert isinstance(rest[-1], Finished)
    outcome = rest[-1].outcome
    assert (outcome.status, outcome.stdout.characters) == (Status.OK, 10 << 20)
    text = first.text + text_of(rest, "stdout")
    passed_over = sum(int(found) for found in re.findall(r"\[… (\d+) bytes passed over", text))
    assert passed_over > 5 << 20
    assert passed_over + text.count("x") + text.count("z") == 10 << 20


@streaming(script(*[prints("o", stderr="e")] * 5000, returns(None)))
async def test_a_late_reader_gets_the_backlog_in_two_pieces(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    async with aclosing(sandbox.stream(TOOL)) as events:
        found = [await anext(events)]
        await asyncio.sleep(5)
        found += [event async for event in events]
    assert len(found) <= 4
    assert (text_of(found, "stdout"), text_of(found, "stderr")) == ("o" * 5000, "e" * 5000)


def test_the_backlog_is_one_piece_per_stream_granted_at_the_last_pace() -> None:
    async def fill() -> tuple[int, bytes, list[tuple[int, int]]]:
        untaken = _Untaken()
        granted: list[tuple[int, int]] = []

        def note(number: int, size: int) -> None:
            granted.append((number, size))

        for number in range(1000):
            for stream, data in ((Stream.STDERR, b"e"), (Stream.STDOUT, b"o")):
                untaken.put(stream, data, partial(note, number))
        untaken.end()
        pieces = [taken for taken in [await untaken.take() for _ in range(3)] if isinstance(taken, _Piece)]
        for piece in pieces:
            piece.grant(len(piece.data))
        return len(pieces), bytes(pieces[1].data), granted

    assert virtual_time.run(fill()) == (2, b"o" * 1000, [(999, 1000), (999, 1000)])


def test_an_item_keeps_its_place_between_outputs() -> None:
    async def fill() -> list[bytes]:
        untaken = _Untaken()
        for text in (b"a", b"b"):
            untaken.put(Stream.STDOUT, text, lambda _: None)
            untaken.put_item(text.upper(), lambda: None)
        untaken.put(Stream.STDOUT, b"c", lambda _: None)
        untaken.end()
        taken = [await untaken.take() for _ in range(6)]
        return [bytes(each.data) if each is not None else b"" for each in taken]

    assert virtual_time.run(fill()) == [b"a", b"A", b"b", b"B", b"c", b""]


GIVEN = [{"number": number, "text": "x" * 20_000} for number in range(300)]


@streaming(gives(*GIVEN))
async def test_items_wait_for_a_slow_reader_in_the_box(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    async with aclosing(sandbox.stream(TOOL)) as events:
        first = await anext(events)
        came = _sent_bytes(backend.boxes[0])
        await asyncio.sleep(20)
        assert sum(came) < 2 * CREDIT
        rest = [event async for event in events]
    assert sum(came) > 5 * CREDIT
    assert [event.value for event in (first, *rest) if isinstance(event, Progress)] == GIVEN
    assert isinstance(rest[-1], Finished)
    assert rest[-1].outcome.value == GIVEN


def _sent_bytes(box: FakeBox) -> list[int]:
    """Record the sizes of what the box sends from now on."""
    sizes: list[int] = []
    say = box.say

    def saying(data: bytes) -> None:
        sizes.append(len(data))
        say(data)

    box.say = saying  # type: ignore[method-assign]
    return sizes


@streaming(script(prints("here\n"), hangs()), concurrency=1)
async def test_leaving_a_stream_ends_its_call_first(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    async with aclosing(sandbox.stream(TOOL)) as events:
        await anext(events)
    async with asyncio.timeout(0.1), aclosing(sandbox.stream(TOOL)) as events:  # the only place is free
        await anext(events)


@streaming(script(prints("here\n"), hangs(stubbornly=True)))
async def test_a_runner_that_does_not_end_a_call_loses_its_box(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    begun = asyncio.get_running_loop().time()
    outcome = await sandbox.run(TOOL, limits={"wall": 1.0})
    assert outcome.status is Status.TIMEOUT
    assert outcome.stdout.text == "here\n"
    assert 4.0 <= asyncio.get_running_loop().time() - begun < 5.0
    async with aclosing(sandbox.stream(TOOL)) as events:
        await anext(events)
    assert len(backend.boxes) == 2


@streaming(script(prints("here\n"), hangs()))
async def test_closing_the_engine_ends_its_streams_with_an_error(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    async with aclosing(sandbox.stream(TOOL)) as events:
        await anext(events)
        await sandbox.close()
        with pytest.raises(EngineClosed):
            await anext(events)


@streaming(loses_box())
async def test_the_loss_of_the_box_is_the_last_event(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    (last,) = [event async for event in sandbox.stream(TOOL)]
    assert isinstance(last, Finished)
    assert last.outcome.evidence == {"box": "lost"}


@streaming(returns(1))
async def test_an_impossible_call_raises_where_the_stream_is_read(sandbox: AsyncSandbox, backend: FakeBackend) -> None:
    with pytest.raises(SourceError):
        await anext(sandbox.stream("not python"))


@streaming(script(prints("y" * 1000, without_end=True)))
async def test_a_tool_that_prints_endlessly_without_a_reader_times_out(
    sandbox: AsyncSandbox, backend: FakeBackend
) -> None:
    async with aclosing(sandbox.stream(TOOL, limits={"wall": 2.0})) as events:
        await anext(events)
        await asyncio.sleep(10)
        rest = [event async for event in events]
    last = rest.pop()
    assert isinstance(last, Finished)
    assert last.outcome.status is Status.TIMEOUT
    assert last.outcome.stdout.characters <= CREDIT + 1000
    assert len(rest) == 1


def test_a_sandbox_without_an_event_loop_streams_the_same() -> None:
    backend = FakeBackend({"tool": script(prints("a\n"), returns(7))})
    with Sandbox(backend=backend) as sandbox:
        events = list(sandbox.stream(TOOL))
    assert [type(event) for event in events] == [Printed, Finished]


def test_leaving_a_stream_without_an_event_loop_ends_its_call() -> None:
    backend = FakeBackend({"tool": lambda hang: script(prints("a\n"), hangs()) if hang else 1})
    source = "def tool(hang: bool):\n    pass\n"
    with Sandbox(backend=backend, concurrency=1) as sandbox:
        for _ in sandbox.stream(source, {"hang": True}):
            break
        assert sandbox.run(source, {"hang": False}).value == 1
