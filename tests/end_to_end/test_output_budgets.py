"""How much is shown of what a tool returns and prints: by its type, the tool, the policy and the call."""

from __future__ import annotations

import json

import pytest

from sandbox import Outcome, Sandbox
from sandbox.outputs.notices import strip_notices
from sandbox.policy import Output, load

LONG = """
import sys
def tool() -> dict:
    for number in range(20_000): print("line", number)
    sys.stderr.write("".join(f"\\r{done}%" for done in range(101)) + "\\n")
    return {"rows": list(range(50_000)), "name": "Oslo"}
"""
LIMITED = "# /// script\n# [tool.sandbox]\n# return_char_limit = 20000\n# ///\n" + LONG


@pytest.mark.usefixtures("harmless")
def test_every_output_has_the_budget_and_the_shape_of_its_type(sandbox: Sandbox) -> None:
    outcome = sandbox.run(LONG)
    assert outcome.value == {"rows": list(range(50_000)), "name": "Oslo"}  # bounded is only what is shown of it
    assert (outcome.shaped_value.type, outcome.stdout.type) == ("json_data", "execution_result")
    assert json.loads(outcome.shaped_value.text)["name"] == "Oslo"
    assert 7_000 < outcome.shaped_value.shown <= 8_000
    assert 7_000 < outcome.stdout.shown <= 8_000
    assert outcome.stdout.text.endswith("line 19999\n")
    assert outcome.stderr.text == "100%\n"


@pytest.mark.usefixtures("harmless")
def test_a_tool_may_ask_for_more_of_its_value_and_a_policy_and_a_call_only_for_less(sandbox: Sandbox) -> None:
    default = load("default")
    tight = default.model_copy(update={"output": Output(budgets=(("execution_result", 0), ("json_data", 900)))})
    assert 18_000 < sandbox.run(LIMITED).shaped_value.shown <= 20_000
    assert sandbox.run(LIMITED, return_char_limit=500).shaped_value.shown <= 500
    assert sandbox.run(LONG, return_char_limit=900_000).shaped_value.shown <= 8_000
    outcome = sandbox.run(LIMITED, policy=tight)
    assert outcome.shaped_value.shown <= 900
    assert (outcome.stdout.shown, strip_notices(outcome.stdout.text)) == (0, "")


@pytest.mark.usefixtures("harmless")
def test_the_form_for_memory_is_shorter_and_holds_no_value(sandbox: Sandbox) -> None:
    outcome = sandbox.run(LIMITED)
    remembered = Outcome.from_json(outcome.to_json()).for_memory()
    assert remembered == outcome.for_memory()
    assert remembered.shaped_value.shown <= 12_000 < outcome.shaped_value.shown
    assert remembered.stdout == outcome.stdout
    assert (remembered.value, remembered.status, remembered.call_id) == (None, outcome.status, outcome.call_id)
