"""How much is shown of what a tool returns and prints: by its type, the tool, the policy and the call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox import Outcome, Sandbox, SpecError
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
def test_only_a_tool_may_ask_for_more_of_its_value(sandbox: Sandbox) -> None:
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


@pytest.mark.usefixtures("harmless")
def test_a_call_says_of_each_output_what_it_is_and_how_much_is_shown(sandbox: Sandbox) -> None:
    outputs: dict[str, Any] = {"stdout": {"type": "file_content", "characters": 9_000}, "value": {"characters": 300}}
    outcome = sandbox.run(LIMITED, outputs=outputs)
    assert (outcome.stdout.type, outcome.shaped_value.type) == ("file_content", "json_data")
    assert 8_000 < outcome.stdout.shown <= 9_000
    assert outcome.shaped_value.shown <= 300
    with pytest.raises(SpecError, match="'value', 'stdout' or 'stderr'"):
        sandbox.run(LIMITED, outputs={"stdin": {"characters": 5}})


@pytest.mark.slow
@pytest.mark.usefixtures("harmless")
def test_budgets_are_of_tokens_where_there_is_a_tokenizer(sandbox: Sandbox) -> None:
    with pytest.raises(SpecError, match="tokens"):
        sandbox.run(LONG, tokens=50)
    in_tokens = load("default").model_copy(update={"output": Output(tokens=(("execution_result", 70),))})
    asking = LONG.replace("def tool", "# /// script\n# [tool.sandbox]\n# return_token_limit = 900\n# ///\ndef tool")
    with Sandbox(tokenizer=str.split) as counting:
        called, limited = counting.run(LONG, tokens=50), counting.run(asking, policy=in_tokens)
    for shaped in (called.shaped_value, called.stdout):
        assert 30 <= len(strip_notices(shaped.text).split()) <= 50
        assert shaped.reason is not None
        assert "50 tokens" in shaped.reason
    assert 50 < len(strip_notices(limited.stdout.text).split()) <= 70
    assert 800 < len(strip_notices(limited.shaped_value.text).split()) <= 900
    assert len(strip_notices(limited.for_memory(tokens=20, tokenizer=str.split).stdout.text).split()) <= 20


PAINTED = """
import os
def tool() -> str:
    os.write(1, b"\\x1b[31mred\\x1b[0m and \\xff\\n")
    os.write(2, b" 50%\\r100%\\n")
    return "\\x1b[1mbold\\x1b[0m"
"""


@pytest.mark.usefixtures("harmless")
def test_what_is_shown_otherwise_than_it_was_printed_is_kept_as_it_was(sandbox: Sandbox) -> None:
    outcome = sandbox.run(PAINTED)
    assert (outcome.stdout.text, outcome.stderr.text, outcome.shaped_value.text) == (
        "red and \ufffd\n",
        "100%\n",
        "bold",
    )
    kept = [(each.artifact or "", each.truncated) for each in (outcome.stdout, outcome.stderr, outcome.shaped_value)]
    assert [is_cut for _, is_cut in kept] == [False, False, False]
    exact = [sandbox.artifacts.show(id).data for id, _ in kept]
    assert exact == [b"\x1b[31mred\x1b[0m and \xff\n", b" 50%\r100%\n", b"\x1b[1mbold\x1b[0m"]


@pytest.mark.usefixtures("harmless")
def test_what_will_be_cut_in_memory_only_is_kept_as_well(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool():\n    print('x' * 20_000)", outputs={"stdout": {"type": "file_content"}})
    assert not outcome.stdout.truncated
    remembered = outcome.for_memory().stdout
    assert remembered.truncated
    assert f"artifact {remembered.artifact}" in remembered.text
    assert sandbox.artifacts.show(remembered.artifact or "").total == 20_001


RESULT = """
from sandbox import BaseTool, ToolResult
class Probe(BaseTool):
    name = "probe"
    description = "Probes."
    stdout_semantic_type = "file_content"
    def execute(self, args: dict) -> ToolResult:
        return ToolResult(args.get("ok", True), "out\\n" * 9_000, "err\\n" * 9_000, {"n": 1})
"""


@pytest.mark.usefixtures("harmless")
def test_the_texts_of_a_result_are_shown_by_their_types(sandbox: Sandbox) -> None:
    for ok in (True, False):
        outcome = sandbox.run(RESULT, {"ok": ok})
        fitted = json.loads(outcome.shaped_value.text)
        assert (outcome.ok, fitted["ok"], fitted["meta"]) == (ok, ok, {"n": 1})
        assert fitted["stdout"] == "out\n" * 9_000  # as a file has room for
        assert 7_000 < len(strip_notices(fitted["stderr"])) <= 8_000
        whole = sandbox.artifacts.show(outcome.shaped_value.artifact or "")
        assert json.loads(whole.data) == outcome.value


REFERRED = """
import os
def tool(name: str) -> str:
    open("outputs/report.csv", "w").write("a,b\\n")
    os.write(1, b"\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\0\\x05\\0\\0\\0\\x06" + bytes(90))
    return name
"""


@pytest.mark.usefixtures("harmless")
@pytest.mark.parametrize("name", ["report.csv", "outputs/report.csv", "/work/outputs/report.csv"])
def test_a_file_that_is_the_output_is_described(name: str, sandbox: Sandbox) -> None:
    outputs = {"value": {"type": "file"}, "stdout": {"type": "image"}}
    outcome = sandbox.run(REFERRED, {"name": name}, outputs=outputs)
    assert outcome.shaped_value.text.startswith("[file report.csv: text/")
    assert outcome.stdout.text.startswith("[image stdout.txt: image/png, 5 × 6, ")  # noqa: RUF001
    assert [each.name for each in outcome.artifacts] == ["report.csv", "stdout.txt"]
    elsewhere = sandbox.run(REFERRED, {"name": "/etc/passwd"}, outputs=outputs).shaped_value
    assert elsewhere.text.startswith("[file value.txt: text/plain, 11 bytes")
