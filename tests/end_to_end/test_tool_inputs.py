"""State, variables and progress: inputs of a call apart from its arguments, and output before it is over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Finished, Outcome, Policy, Printed, Progress, Sandbox, Status
from sandbox.policy import load
from sandbox.policy.model import Variables
from tests.end_to_end.command_line import sandbox as command
from tests.end_to_end.packages import publish_files, requiring
from tests.indexes import LocalIndex

CART: Final = """
def tool(item: str, agent_state, agent_id: str = "nobody", *, ctx=None, client=None) -> dict:
    agent_state.cart.items_sold = agent_state["cart"].get("items_sold", 0) + 1
    agent_state.cart["lines"].append({"item": item})
    return {"agent": agent_id, "first": agent_state.cart.lines[0].item, "ctx": ctx, "client": client}
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's package that has our name."""
    folder = tmp_path_factory.mktemp("wheels")
    publish_files(folder, "sandbox", {"sandbox.py": "class Desert: pass\n"})
    return folder


def value(outcome: Outcome) -> Any:
    """Return the value of a call that is ok."""
    assert outcome.ok, outcome
    return outcome.value


def test_a_changed_copy_of_the_state_comes_back_and_the_callers_stays(sandbox: Sandbox) -> None:
    state = {"cart": {"lines": [{"item": "hat"}]}, "other": None}
    outcome = sandbox.run(CART, {"item": "shoe"}, state=state, agent_id="a-1", ctx={"n": 1}, client=[2])
    assert value(outcome) == {"agent": "a-1", "first": "hat", "ctx": {"n": 1}, "client": [2]}
    changed = {"cart": {"lines": [{"item": "hat"}, {"item": "shoe"}], "items_sold": 1}, "other": None}
    assert outcome.state == changed
    assert state == {"cart": {"lines": [{"item": "hat"}]}, "other": None}
    assert Outcome.from_json(outcome.to_json()).state == changed


def test_a_state_that_is_not_changed_does_not_come_back(sandbox: Sandbox) -> None:
    source = "def tool(agent_state) -> list:\n    return sorted(agent_state)\n"
    outcome = sandbox.run(source, state={"b": 1, "a": 2})
    assert (value(outcome), outcome.state) == (["a", "b"], None)
    assert value(sandbox.run(source)) == []


def test_nothing_given_is_an_empty_state_or_the_tools_own_default(sandbox: Sandbox) -> None:
    source = "def tool(agent_state, ctx, agent_id, client=7) -> list:\n    agent_state.n = 1\n"
    outcome = sandbox.run(source + "    return [agent_state.n, ctx, agent_id, client]\n")
    assert (value(outcome), outcome.state) == ([1, {}, None, 7], {"n": 1})


def test_what_is_injected_is_no_argument_of_a_model(sandbox: Sandbox) -> None:
    outcome = sandbox.run(CART, {"item": "x", "agent_state": {}, "ctx": {}})
    assert outcome.status is Status.INVALID
    assert [each.path for each in outcome.problems] == ["agent_state", "ctx"]


def test_a_state_that_is_no_json_is_invalid_with_its_path(sandbox: Sandbox) -> None:
    outcome = sandbox.run(CART, {"item": "x"}, state={"cart": {"n": float("nan")}}, ctx={"f": object()})
    assert outcome.status is Status.INVALID
    assert [each.path for each in outcome.problems] == ["agent_state.cart.n", "ctx.f"]
    huge = sandbox.run(CART, {"item": "x"}, state={"cart": "x" * 2000}, limits={"arguments": 1000})
    assert huge.status is Status.INVALID


def test_a_state_that_cannot_be_written_is_shown_and_reported(sandbox: Sandbox) -> None:
    source = "def tool(agent_state):\n    agent_state.when = object\n    agent_state.me = agent_state\n"
    outcome = sandbox.run(source, state={"n": 1})
    assert outcome.ok
    assert outcome.state == {
        "n": 1,
        "when": {"repr": "<class 'object'>", "type": "type"},
        "me": {"repr": "<cycle>", "type": "note"},
    }
    assert len(outcome.warnings) == 2


def test_a_state_that_grows_without_end_is_a_limit(sandbox: Sandbox) -> None:
    source = "def tool(agent_state):\n    agent_state.text = 'x' * 100_000\n"
    outcome = sandbox.run(source, limits={"value": 1000})
    assert (outcome.status, outcome.limit_name, outcome.state) == (Status.LIMIT, "value", None)


def test_a_call_that_raised_changes_no_state(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool(agent_state):\n    agent_state.n = 2\n    raise ValueError('no')\n", state={"n": 1})
    assert (outcome.status, outcome.state) == (Status.EXCEPTION, None)


def test_methods_and_execute_classes_are_given_it_too(sandbox: Sandbox) -> None:
    source = """
from sandbox import BaseTool, Tool, ToolResult, method_metadata
class Notes(Tool):
    @method_metadata()
    def add(self, text: str, agent_state) -> int:
        agent_state.setdefault("notes", []).append(text)
        return len(agent_state.notes)
class Who(BaseTool):
    name, description = "who", "Says who."
    def execute(self, args: dict, agent_id: str) -> ToolResult:
        return ToolResult(True, stdout=agent_id)
"""
    outcome = sandbox.run(source, {"text": "b"}, entry="Notes.add", state={"notes": ["a"]})
    assert (value(outcome), outcome.state) == (2, {"notes": ["a", "b"]})
    assert value(sandbox.run(source, {}, entry="Who", agent_id="a-1"))["stdout"] == "a-1"


SHOW: Final = (
    "import os\ndef tool(names: list[str]) -> dict:\n    return {name: os.environ.get(name) for name in names}\n"
)


def test_later_variables_win_and_the_engines_own_stand(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HOST", "host")
    monkeypatch.setenv("UNNAMED", "host")
    policy: Policy = load("default").model_copy(update={"variables": Variables(passed=("FROM_HOST", "NOT_THERE", "A"))})
    layers = [{"A": "catalog", "B": "catalog", "C": "catalog", "D": "catalog"}, {"B": "tenant", "C": "tenant"}]
    names = ["FROM_HOST", "UNNAMED", "NOT_THERE", "A", "B", "C", "D", "NO_COLOR", "PYTHONUNBUFFERED", "SANDBOX_TOOL"]
    outcome = sandbox.run(
        SHOW,
        {"names": names},
        policy=policy,
        env_layers=[*layers, {"C": "tool"}],
        env={"D": None, "NO_COLOR": "0", "SANDBOX_TOOL": "forged", "PYTHONUNBUFFERED": None},
    )
    assert list(value(outcome).values()) == ["host", None, None, "catalog", "tenant", "tool", None, "1", "1", "tool"]


def test_a_variable_of_the_host_is_seen_only_where_the_policy_names_it(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HOST", "secret")
    assert value(sandbox.run(SHOW, {"names": ["FROM_HOST"]})) == {"FROM_HOST": None}


GIVES: Final = """
import asyncio
async def later(n: int):
    for number in range(n):
        print("at", number)
        yield {"number": number}
        await asyncio.sleep(0)
def now(n: int):
    yield from range(n)
    return "not seen"
async def wrapped(n: int):
    return (each for each in range(n))
"""


@pytest.mark.parametrize("entry", ["now", "wrapped"])
def test_what_a_generator_gives_is_a_list(entry: str, sandbox: Sandbox) -> None:
    assert value(sandbox.run(GIVES, {"n": 3}, entry=entry)) == [0, 1, 2]
    events = list(sandbox.stream(GIVES, {"n": 3}, entry=entry))
    assert [event.value for event in events if isinstance(event, Progress)] == [0, 1, 2]


def test_items_come_as_they_are_given(sandbox: Sandbox) -> None:
    for _ in range(3):  # through the runner, and on a line
        events = list(sandbox.stream(GIVES, {"n": 3}, entry="later"))
        items = [event.value for event in events if isinstance(event, Progress)]
        assert items == [{"number": 0}, {"number": 1}, {"number": 2}]
        assert "".join(event.text for event in events if isinstance(event, Printed)) == "at 0\nat 1\nat 2\n"
        last = events[-1]
        assert isinstance(last, Finished)
        assert value(last.outcome) == items


def test_an_item_comes_while_the_tool_goes_on(sandbox: Sandbox) -> None:
    source = "import time\ndef tool():\n    yield 'first'\n    time.sleep(60)\n"
    for event in sandbox.stream(source):
        assert event == Progress("first")
        break


@pytest.mark.slow
def test_a_bounded_number_of_items_comes_and_the_value_has_all(sandbox: Sandbox) -> None:
    events = list(sandbox.stream(GIVES, {"n": 12_000}, entry="now"))
    items = [event.value for event in events if isinstance(event, Progress)]
    assert items == list(range(10_000))
    large = "def tool():\n    for n in range(20): yield 'x' * 100_000\n"
    events = list(sandbox.stream(large, limits={"value": 1 << 20}))
    last = events[-1]
    assert isinstance(last, Finished)
    assert len([event for event in events if isinstance(event, Progress)]) == 10
    assert (last.outcome.status, last.outcome.limit_name) == (Status.LIMIT, "value")


FORGE: Final = """
import os
def tool(data: str, times: int) -> str:
    for number in range(6, 1100):
        try:
            for _ in range(times): os.write(number, bytes.fromhex(data))
        except OSError:
            pass
    return "over"
"""


@pytest.mark.slow
@pytest.mark.usefixtures("harmless")
@pytest.mark.parametrize("item", [b"", b"no json", b"NaN", b'{"a":1}', b"[" * 1000, b"[[],".ljust(4) * 200_000])
@pytest.mark.parametrize("times", [1, 20_000])
def test_forged_items_are_items_or_nothing(item: bytes, times: int, sandbox: Sandbox) -> None:
    data = (0x80000000 | len(item)).to_bytes(4, "big") + item
    times = min(times, 40) if len(item) > 1000 else times
    events = list(sandbox.stream(FORGE, {"data": data.hex(), "times": times}))
    assert isinstance(events[-1], Finished)
    assert all(event == Progress({"a": 1}) for event in events[:-1])
    assert len(events) <= 10_001


def test_who_does_not_follow_is_sent_nothing(sandbox: Sandbox) -> None:
    source = "def tool():\n    for n in range(5): yield n\n"
    assert value(sandbox.run(source)) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_the_command_line_shows_progress_and_gives_state(tmp_path: Path) -> None:
    file = tmp_path / "gives.py"
    file.write_text("def tool(agent_state, agent_id):\n    agent_state.n += 1\n    yield agent_id\n    yield 2\n")
    given = ("--state", '{"n": 1}', "--agent", "a-1")
    answer = command("run", str(file), *given, "--stream")
    assert answer.stdout == '["a-1", 2]\n'
    assert answer.stderr.startswith("a-1\n2\nok ")
    answer = command("run", str(file), *given, "--stream", "--json")
    *events, last = map(json.loads, answer.stdout.splitlines())
    assert events == [{"event": "progress", "value": "a-1"}, {"event": "progress", "value": 2}]
    assert (last["value"], last["state"]) == (["a-1", 2], {"n": 2})
    answer = command("run", str(file), "--state", "-", "--args", "-", input="{}")
    assert (answer.returncode, "--args and --state" in answer.stderr) == (2, True)
    answer = command("run", str(file), "--state", "[1]")
    assert (answer.returncode, "--state must be a JSON object" in answer.stderr) == (2, True)


@pytest.mark.slow
def test_a_package_that_the_kit_hides_is_reported(index: LocalIndex, store: Path) -> None:
    source = (
        "import sandbox\ndef tool() -> list:\n    return [hasattr(sandbox, 'Desert'), hasattr(sandbox, 'ToolResult')]\n"
    )
    raises = "import sandbox\ndef tool():\n    return sandbox.Desert\n"
    changes = "import sandbox\ndef tool(agent_state):\n    agent_state.n = 1\n"
    with Sandbox(store=store) as engine:
        for _ in range(2):  # cold, and imported ahead
            outcome = engine.run(requiring(("sandbox==1.0",), source))
            assert value(outcome) == [False, True]
            assert ["is hidden by it" in warning for warning in outcome.warnings] == [True]
        outcome = engine.run(requiring(("sandbox==1.0",), raises))
        assert (outcome.status, len(outcome.warnings)) == (Status.EXCEPTION, 1)
        outcome = engine.run(requiring(("sandbox==1.0",), changes))
        assert (outcome.state, len(outcome.warnings)) == ({"n": 1}, 1)
        assert engine.run(requiring(("sandbox==1.0",), "def tool(): return 1\n")).warnings == ()
