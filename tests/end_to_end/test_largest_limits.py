"""The largest limits that a policy may have are those of calls that run; what is larger is refused by its name."""

from __future__ import annotations

import pytest

from sandbox import Policy, PolicyError, Sandbox
from sandbox.policy import load
from tests.end_to_end.calls import TRIVIAL


@pytest.mark.parametrize(("name", "most"), [("memory", 2**62), ("processes", 4_000_000)])
def test_a_call_runs_under_the_largest_limit_and_a_larger_one_is_refused(
    name: str, most: int, sandbox: Sandbox
) -> None:
    granted = load("default").model_dump()
    policy = Policy.model_validate({**granted, "limits": {**granted["limits"], name: most}})
    assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=policy).value == 3
    with pytest.raises(PolicyError, match=rf"limits\.{name}: must be at most {most}"):
        sandbox.run(TRIVIAL, {"a": 1, "b": 2}, limits={name: most + 1})
