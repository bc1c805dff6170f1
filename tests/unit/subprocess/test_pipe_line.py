"""Direct pipes carry a call in both directions, take only wanted bytes, and no process in a box can block them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final

import psutil
import pytest

from sandbox.backends.pipes import ChildPipes

PATIENCE_S: Final = 60
PIPE_HOLDS: Final = 1 << 16


class Talk:
    """Pipes, their far ends, and the events that they reported."""

    def __init__(self) -> None:
        self.line = ChildPipes(3)
        self.request, self.stdout, self.stderr, self.value = self.line.take_child_fds()
        self.printed: list[tuple[str, bytes]] = []
        self.replied = b""
        self.line.watch()

    def call(self, request: bytes = b"ask") -> bool:
        def on_output(name: str, data: bytes) -> None:
            self.printed.append((name, data))

        return self.line.call(request, on_output=on_output, on_reply=self.note)

    def note(self, data: bytes) -> None:
        self.replied += data

    def leave(self) -> None:
        """Close the far ends, as a process that ends does."""
        for end in (self.request, self.stdout, self.stderr, self.value):
            os.close(end)
        self.request = self.stdout = self.stderr = self.value = -1

    def end(self) -> None:
        self.line.close()
        for end in (self.request, self.stdout, self.stderr, self.value):
            if end >= 0:
                os.close(end)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (nobody sets an event: what is waited for comes through a pipe)
            await asyncio.sleep(0)


def talking(test: Callable[[Talk], Awaitable[None]]) -> Callable[[], None]:
    async def talk() -> None:
        open_talk = Talk()
        try:
            await test(open_talk)
        finally:
            open_talk.end()

    def run() -> None:
        before = psutil.Process().num_fds()
        asyncio.run(talk())
        assert psutil.Process().num_fds() == before

    run.__name__ = getattr(test, "__name__", "test")
    run.__module__ = test.__module__
    return run


@talking
async def test_a_call_gets_its_request_and_gives_its_output_and_reply(talk: Talk) -> None:
    assert talk.call(b"ask")
    assert os.read(talk.request, 9) == b"ask"
    os.write(talk.stdout, b"out")
    os.write(talk.stderr, b"err")
    os.write(talk.value, b"value")
    await until(lambda: len(talk.printed) == 2 and len(talk.replied) == 5)
    assert (sorted(talk.printed), talk.replied) == ([("stderr", b"err"), ("stdout", b"out")], b"value")


@talking
async def test_a_large_request_and_its_inputs_are_sent_as_they_are_read(talk: Talk) -> None:
    request, more = os.urandom(5 * PIPE_HOLDS), [os.urandom(3 * PIPE_HOLDS), b"the last"]
    assert talk.call(request)

    async def feed() -> None:
        for data in more:
            await talk.line.feed(data)

    feeding = asyncio.create_task(feed())
    os.set_blocking(talk.request, False)
    sent, read = b"".join((request, *more)), bytearray()

    def has_all() -> bool:
        try:
            read.extend(os.read(talk.request, PIPE_HOLDS))
        except BlockingIOError:
            return False
        return len(read) == len(sent)

    await until(has_all)
    await feeding
    assert bytes(read) == sent


@talking
async def test_writing_into_closed_pipes_does_not_block(talk: Talk) -> None:
    assert talk.call(b"ask")
    feeding = asyncio.create_task(talk.line.feed(bytes(5 * PIPE_HOLDS)))
    await asyncio.sleep(0)
    talk.line.close()
    async with asyncio.timeout(PATIENCE_S):
        await feeding
        await talk.line.feed(b"more")


@talking
async def test_an_unread_request_is_taken_back(talk: Talk) -> None:
    os.set_blocking(talk.request, False)
    assert talk.call(b"ask")
    assert talk.line.retract()
    with pytest.raises(BlockingIOError):
        os.read(talk.request, 9)


@pytest.mark.parametrize(("size", "read", "is_back"), [(3, 2, True), (3, 3, False), (5 * PIPE_HOLDS, 9, True)])
def test_only_a_process_that_read_its_whole_request_can_have_started(size: int, read: int, is_back: bool) -> None:
    @talking
    async def reading(talk: Talk) -> None:
        assert talk.call(bytes(size))
        os.read(talk.request, read)
        talk.leave()
        assert talk.line.retract() is is_back

    reading()


@pytest.mark.parametrize(("read", "is_back"), [(2, True), (3, False), (4, False)])
def test_a_process_that_read_its_whole_request_can_have_started(read: int, is_back: bool) -> None:
    @talking
    async def reading(talk: Talk) -> None:
        assert talk.call(b"ask")
        feeding = asyncio.create_task(talk.line.feed(bytes(5 * PIPE_HOLDS)))
        await asyncio.sleep(0)
        os.read(talk.request, read)
        talk.leave()
        assert talk.line.retract() is is_back
        talk.line.close()
        await feeding

    reading()


@talking
async def test_a_process_that_ends_is_noticed_before_its_call(talk: Talk) -> None:
    talk.leave()
    await until(lambda: not talk.line.is_open)
    assert not talk.call()


@pytest.mark.parametrize("end", ["stdout", "stderr", "value"])
def test_pipes_with_early_output_are_never_used_for_a_call(end: str) -> None:
    @talking
    async def speaking(talk: Talk) -> None:
        os.write(getattr(talk, end), b"\0\0\0\1x")
        await until(lambda: not talk.line.is_open)
        assert not talk.call()
        assert (talk.printed, talk.replied) == ([], b"")

    speaking()


@talking
async def test_a_process_that_ends_while_reading_its_request_is_no_error(talk: Talk) -> None:
    assert talk.call(bytes(5 * PIPE_HOLDS))
    os.close(talk.request)
    talk.request = -1
    os.write(talk.stdout, b"x")
    await until(lambda: talk.printed == [("stdout", b"x")])


@talking
async def test_unwanted_bytes_stay_in_the_pipe(talk: Talk) -> None:
    assert talk.call()
    talk.line.pause()
    os.write(talk.stdout, b"later")
    os.write(talk.value, b"v")
    await until(lambda: talk.replied == b"v")
    assert talk.printed == []
    talk.line.resume()
    await until(lambda: talk.printed == [("stdout", b"later")])


@talking
async def test_buffered_bytes_are_returned_at_once_on_request(talk: Talk) -> None:
    assert talk.call()
    talk.line.pause()
    os.write(talk.stdout, b"out")
    os.write(talk.value, b"value")
    talk.line.empty_outputs()
    assert (talk.printed, talk.replied) == ([("stdout", b"out")], b"")
    talk.leave()
    talk.line.empty()
    assert talk.replied == b"value"


def test_emptying_ends_while_a_tool_goes_on_printing() -> None:
    """Each piece that is taken makes room, and more comes at once."""

    @talking
    async def flooded(talk: Talk) -> None:
        os.set_blocking(talk.stdout, False)
        taken = 0

        def on_output(_: str, data: bytes) -> None:
            nonlocal taken
            taken += len(data)
            os.write(talk.stdout, bytes(PIPE_HOLDS))

        assert talk.line.call(b"ask", on_output=on_output, on_reply=talk.note)
        os.write(talk.stdout, bytes(PIPE_HOLDS))
        talk.line.empty_outputs()
        assert PIPE_HOLDS < taken <= (1 << 20) + PIPE_HOLDS

    flooded()


@talking
async def test_a_far_end_made_to_block_does_not_make_ours_block(talk: Talk) -> None:
    assert talk.call()
    for end in (talk.request, talk.stdout, talk.stderr, talk.value):
        os.set_blocking(end, True)
    talk.line.empty()
    assert (talk.printed, talk.replied) == ([], b"")


@talking
async def test_closing_ends_a_waiting_process(talk: Talk) -> None:
    talk.line.close()
    talk.line.close()
    assert os.read(talk.request, 1) == b""
    talk.line.resume()
    talk.line.empty()
    assert not talk.call()


@talking
async def test_pipes_that_are_never_handed_over_close_both_ends(talk: Talk) -> None:
    spare = ChildPipes(4)
    spare.close()
    assert spare.take_child_fds() == []


@talking
async def test_a_closed_output_is_not_awaited_any_more(talk: Talk) -> None:
    assert talk.call()
    os.close(talk.stdout)
    talk.stdout = -1
    os.write(talk.stderr, b"x")
    await until(lambda: talk.printed == [("stderr", b"x")])
    talk.line.pause()
    talk.line.resume()
    os.write(talk.stderr, b"y")
    await until(lambda: talk.printed[1:] == [("stderr", b"y")])
