"""How tools are written: every dialect runs, with what it imports and is given, and what it gives before its end."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sandbox.client.stream import Finished, Progress
from sandbox.outcome import Status
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import UNTIL_BEGUN_S, Subject

METHODS: Final = """
from sandbox import Tool, method_metadata
class Letters(Tool):
    @method_metadata()
    async def count(self, text: str) -> int:
        return len(text)
"""
EXECUTE: Final = """
from sandbox import BaseTool, ToolResult
class Halve(BaseTool):
    name = "halve"
    description = "Halves."
    def validate_args(self, args: dict):
        return args["n"] % 2 == 0, "n must be even"
    def needs_permission(self, args: dict):
        return "May it?" if args["n"] == 0 else False
    def execute(self, args: dict) -> ToolResult:
        return ToolResult(args["n"] > 0, stdout=str(args["n"] // 2), stderr="too small")
"""
MODULE: Final = """
TOOL_NAME = "greet"
TOOL_DESCRIPTION = "Greets."
TOOL_PARAMETERS = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
async def run(ctx, **kwargs):
    return [ctx.greeting, kwargs]
"""
ANNOTATED: Final = """
from __future__ import annotations
import dataclasses, datetime
@dataclasses.dataclass
class Stay:
    begin: datetime.date
    guests: set[str]
def tool(stays: list[Stay]) -> list:
    return [[stay.begin.year, sorted(stay.guests)] for stay in stays]
"""
REMEMBER: Final = """
def tool(word: str, agent_state, agent_id: str) -> str:
    agent_state.words.append(word)
    return agent_id
"""
GIVES: Final = """
async def tool(n: int):
    for number in range(n):
        yield {"number": number}
"""
GIVES_MUCH: Final = """
def give_much(n: int):
    for number in range(n):
        with open("outputs/given", "w") as given:
            given.write(str(number))
        yield "x" * 60_000
"""
_ITEMS: Final = 3_000
_BYTES_OF_ITEMS: Final = 256 << 20
_MOST_AHEAD: Final = 2_500
"""Items that may be under way: what waits for its reader, and what pipes hold, and sockets on the way to a daemon: on
some hosts 64 MiB are where one sends, and as much where it is received."""


async def check_a_method_of_a_class_is_called(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(METHODS, {"text": "four"}, entry="Letters.count"))
    expect.same(outcome.value, 4)


async def check_a_class_with_execute_is_asked_before_it_is_executed(subject: Subject) -> None:
    run = subject.sandbox.run
    outcome = expect.ok(await run(EXECUTE, {"n": 4}))
    expect.same(outcome.value, {"ok": True, "stdout": "2", "stderr": "too small", "meta": {}})
    outcome = expect.ended(await run(EXECUTE, {"n": 3}), Status.INVALID)
    expect.same([problem.message for problem in outcome.problems], ["n must be even"])
    expect.same(expect.ended(await run(EXECUTE, {"n": 0}), Status.DENIED).detail, "May it?")
    outcome = expect.ended(await run(EXECUTE, {"n": 0}, permitted=True), Status.FAILED)
    expect.same(outcome.detail, "too small")


async def check_a_module_with_run_gets_its_arguments_and_ctx(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(MODULE, {"who": "Ada"}, ctx={"greeting": "hi"}))
    expect.same(outcome.value, ["hi", {"who": "Ada"}])


async def check_arguments_come_as_they_are_annotated(subject: Subject) -> None:
    stays = [{"begin": "2026-05-31", "guests": ["b", "a", "b"]}]
    outcome = expect.ok(await subject.sandbox.run(ANNOTATED, {"stays": stays}))
    expect.same(outcome.value, [[2026, ["a", "b"]]])


async def check_a_changed_state_comes_back(subject: Subject) -> None:
    state = {"words": ["a"]}
    outcome = expect.ok(await subject.sandbox.run(REMEMBER, {"word": "b"}, state=state, agent_id="me"))
    expect.same([outcome.value, outcome.state, state], ["me", {"words": ["a", "b"]}, {"words": ["a"]}])


async def check_what_a_generator_gives_comes_as_progress(subject: Subject) -> None:
    events = [event async for event in subject.sandbox.stream(GIVES, {"n": 3})]
    wanted = [{"number": number} for number in range(3)]
    expect.same([event.value for event in events if isinstance(event, Progress)], wanted)
    last = events[-1]
    expect.that(isinstance(last, Finished) and last.outcome.value == wanted, f"the last event is {last!r:.2000}")


async def check_a_value_without_a_parameter_is_not_passed(subject: Subject) -> None:
    """A tool whose reader takes nothing for so long is out of time, with some of it still to be given. Its policy lets
    it give all of that: what is more than a value may be is gathered and not given."""
    policy = subject.policy_with("limits", value=_BYTES_OF_ITEMS)
    for wall in UNTIL_BEGUN_S:
        events = subject.sandbox.stream(GIVES_MUCH, {"n": _ITEMS}, policy=policy, limits={"wall": wall})
        last = await anext(events)
        if isinstance(last, Progress):
            break
    await asyncio.sleep(wall + 0.2)
    last = [last, *[event async for event in events]][-1]
    expect.that(isinstance(last, Finished), f"the last event is {last!r:.2000}")
    if isinstance(last, Finished):
        expect.ended(last.outcome, Status.TIMEOUT, limit_name="wall")
        expect.same([each.name for each in last.outcome.artifacts], ["given"])
        kept: Any = await subject.sandbox.artifacts.show(last.outcome.artifacts[0].id)
        expect.that(int(kept.text) < _MOST_AHEAD, f"{kept.text} items were given")
