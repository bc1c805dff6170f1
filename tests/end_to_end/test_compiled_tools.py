"""A tool that comes again is compiled once for all its calls; nothing else about them may change by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from sandbox import Outcome, Sandbox, Status

CALLS: Final = 6
PADDING: Final = "\n".join(f"def spare_{number}(): return {number}" for number in range(40))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def _outcomes(sandbox: Sandbox, source: str) -> list[Outcome]:
    """Return the values of consecutive calls. The third and later calls may find the tool compiled."""
    return [sandbox.run(f"{PADDING}\n{source}", {}, entry="tool") for _ in range(CALLS)]


def test_values_and_the_tools_own_name_and_file_stay_the_same(sandbox: Sandbox) -> None:
    source = "import os\nSTATE = []\ndef tool() -> list:\n    STATE.append(1)\n    return [STATE, __file__, __name__]\n"
    values = [outcome.raise_for_status().value for outcome in _outcomes(sandbox, source)]
    assert values == [[[1], "/work/tool.py", "tool"]] * CALLS


def test_a_traceback_shows_the_authors_lines_each_time(sandbox: Sandbox) -> None:
    source = "def tool():\n    raise ValueError('no')\n"
    outcomes = _outcomes(sandbox, source)
    traces = {outcome.error.traceback for outcome in outcomes if outcome.error}
    assert [outcome.status for outcome in outcomes] == [Status.EXCEPTION] * CALLS
    assert len(traces) == 1
    assert "raise ValueError('no')" in str(traces.pop())


def test_what_the_compiler_warns_of_is_printed_each_time(sandbox: Sandbox) -> None:
    outcomes = _outcomes(sandbox, "def tool() -> bool:\n    return 1 is 1\n")
    assert ["SyntaxWarning" in outcome.stderr.text for outcome in outcomes] == [True] * CALLS


def test_tools_of_one_file_name_are_not_taken_for_each_other(sandbox: Sandbox) -> None:
    sources = [f"def tool() -> int:\n    return {number}\n{PADDING}\n" for number in range(3)]
    for _ in range(CALLS):
        assert [sandbox.run(source, {}, entry="tool").value for source in sources] == [0, 1, 2]
