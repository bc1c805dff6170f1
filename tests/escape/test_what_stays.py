"""Attack: leave something behind for the next call of the same box: files, sockets, keys, processes, changed modules.

The next call may be another tool, of another author; the result of its `json.loads` and its files under /tmp must not
depend on the tool before.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from sandbox import Outcome, Status
from sandbox.doctor.attacks.leftovers import CHANGES, KEPT_KINDS, MARKS, OUTLIVE, REFUSED_KINDS
from tests.escape.engines import Engine


def _one_after_the_other(engine: Engine, source: str) -> tuple[Any, Any]:
    """Return the values of `leave` and then, in the same box, of `look`."""
    left = _ok(engine.run(source, entry="leave"))
    found = _ok(engine.run(source, entry="look"))
    assert found.timing.path == "warm", "it ran in another box: this test can tell nothing"
    return left.value, found.value


def _ok(outcome: Outcome) -> Outcome:
    assert outcome.status is Status.OK, outcome.error
    return outcome


@pytest.mark.slow
def test_no_mark_of_a_call_is_there_for_the_next(engine: Engine) -> None:
    left, found = _one_after_the_other(engine, MARKS)
    assert KEPT_KINDS - REFUSED_KINDS <= set(left) <= KEPT_KINDS
    assert found == []


KINDS_OF_CHANGES: Final = 20


def test_no_change_of_the_interpreter_lasts(engine: Engine) -> None:
    left, found = _one_after_the_other(engine, CHANGES)
    assert len(left) == KINDS_OF_CHANGES, left
    assert found == []


def test_no_process_outlives_its_call(engine: Engine) -> None:
    assert _one_after_the_other(engine, OUTLIVE) == (["left-behind"], [])
