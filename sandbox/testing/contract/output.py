"""The output of a tool, all at once and as a stream."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from sandbox.client.stream import Finished, Printed
from sandbox.outcome import Status
from sandbox.policy import OverflowAction
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import UNTIL_BEGUN_S, Subject, until_printed

SPEAK: Final = """
import sys

def speak(lines: int) -> str:
    for number in range(lines):
        print(f"out {number}")
        print(f"err {number}", file=sys.stderr)
    return "spoken"
"""
WRITE: Final = """
import os

def write(text: str, times: int) -> str:
    for _ in range(times):
        os.write(1, text.encode("latin-1"))
    return "written"
"""
OPEN: Final = """
import subprocess

def open_by_name(text: str) -> int:
    with open("/dev/stdout", "w") as stdout:
        stdout.write(text)
    return subprocess.run(["sh", "-c", f"echo {text} > /dev/stderr"]).returncode
"""
HANG: Final = """
def hang_after(text: str) -> None:
    print(text)
    while True:
        pass
"""
_MEBIBYTE: Final = 1 << 20


async def check_each_stream_keeps_its_order(subject: Subject) -> None:
    policy = subject.policy_with("output", budgets=(("error_message", 50_000), ("execution_result", 50_000)))
    outcome = expect.ok(await subject.sandbox.run(SPEAK, {"lines": 3000}, policy=policy))
    expect.same(outcome.stdout.text, "".join(f"out {number}\n" for number in range(3000)))
    expect.same(outcome.stderr.text, "".join(f"err {number}\n" for number in range(3000)))


async def check_bytes_that_are_no_text_are_shown_as_far_as_they_can_be(subject: Subject) -> None:
    garbage = bytes(each for each in range(256) if each not in b"\b\r\x1b") * 12  # a terminal acts on these
    outcome = expect.ok(await subject.sandbox.run(WRITE, {"text": garbage.decode("latin-1"), "times": 2}))
    expect.same(outcome.stdout.text, (garbage * 2).decode("utf-8", "replace"))


async def check_frames_on_stdout_are_text(subject: Subject) -> None:
    forged = b'\0\0\0\x13\x01{"type":"ended"}\xff\xff\xff\xff\x01'
    outcome = expect.ok(await subject.sandbox.run(WRITE, {"text": forged.decode("latin-1"), "times": 3}))
    expect.same(outcome.value, "written")
    expect.same(outcome.stdout.text, (forged * 3).decode("utf-8", "replace"))


async def check_outputs_can_be_opened_by_their_names(subject: Subject) -> None:
    """In a call whose process was there before it as well as in one that had none."""
    for number in range(6):
        outcome = expect.ok(await subject.sandbox.run(OPEN, {"text": f"call {number}"}))
        expect.same((outcome.value, outcome.stdout.text), (0, f"call {number}"))
        expect.same(outcome.stderr.text, f"call {number}\n")


async def check_more_output_than_is_shown_is_cut_and_says_so(subject: Subject) -> None:
    policy = subject.policy_with("output", shown=1000)
    outcome = await subject.sandbox.run(WRITE, {"text": "x" * _MEBIBYTE, "times": 3}, policy=policy)
    stdout = expect.ok(outcome).stdout
    expect.same((stdout.characters, stdout.truncated), (3 * _MEBIBYTE, True))
    expect.that(len(stdout.text) < 2000, f"{len(stdout.text)} characters are shown")


async def check_output_past_its_limit_is_counted_and_dropped(subject: Subject) -> None:
    outcome = await subject.sandbox.run(WRITE, {"text": "y" * 65536, "times": 16}, limits={"output": 65536})
    expect.same(expect.ok(outcome).stdout.characters, _MEBIBYTE)


async def check_output_past_its_limit_ends_the_call_where_the_policy_says_so(subject: Subject) -> None:
    policy = subject.policy_with("output", over=OverflowAction.KILL)
    arguments = {"text": "z" * 65536, "times": 100_000}
    outcome = await subject.sandbox.run(WRITE, arguments, policy=policy, limits={"output": _MEBIBYTE})
    expect.ended(outcome, Status.LIMIT, limit_name="output")
    expect.that(outcome.stdout.text.startswith("zzz"), "what it printed until then is not there")


async def check_a_stream_gives_what_is_printed_and_ends_with_the_outcome(subject: Subject) -> None:
    events = [event async for event in subject.sandbox.stream(SPEAK, {"lines": 200})]
    last = events.pop()
    if not isinstance(last, Finished):
        raise AssertionError(f"the last event is {last!r:.2000}")
    printed = [event for event in events if isinstance(event, Printed)]
    expect.same(len(printed), len(events), what="the number of events before the last that are output")
    expect.same("".join(event.text for event in printed if event.stream == "stdout"), last.outcome.stdout.text)
    expect.same("".join(event.text for event in printed if event.stream == "stderr"), last.outcome.stderr.text)


async def check_a_slow_reader_misses_nothing(subject: Subject) -> None:
    total, last = 0, None
    async for event in subject.sandbox.stream(WRITE, {"text": "w" * 65536, "times": 128}):
        total += len(event.text) if isinstance(event, Printed) else 0
        last = event
        if total < _MEBIBYTE:
            await subject.sandbox.run(SPEAK, {"lines": 1})  # has other things to do
    expect.that(isinstance(last, Finished), "the stream did not end with the outcome")
    expect.same(total, 128 * 65536, what="the number of characters")


async def check_leaving_a_stream_ends_its_call(subject: Subject) -> None:
    async with subject.engine(concurrency=1) as engine:
        async with aclosing(engine.sandbox.stream(HANG, {"text": "here"})) as events:
            await until_printed(events, "here\n")
        expect.ok(await engine.sandbox.run(SPEAK, {"lines": 1}))


async def check_partial_output_comes_back_after_a_timeout(subject: Subject) -> None:
    for wall in UNTIL_BEGUN_S:
        outcome = await subject.sandbox.run(HANG, {"text": "so far"}, limits={"wall": wall})
        expect.ended(outcome, Status.TIMEOUT, limit_name="wall")
        if outcome.stdout.text:
            break
    expect.same(outcome.stdout.text, "so far\n")
    expect.same(outcome.value, None, what="the value")
