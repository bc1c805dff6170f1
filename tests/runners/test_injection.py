"""Injected values are easy to use, and a changed state differs from the given one."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from call.dialects import AttributeDict, Injection

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def takes(agent_state: Any, ctx: Any = 5, *, agent_id: Any = None, client: Any) -> None:
    """A tool."""


def state_of(value: Any) -> tuple[Any, Injection]:
    injection = Injection(takes, ["agent_state"], {"agent_state": value})
    return injection.arguments["agent_state"], injection


def test_members_are_attributes_and_items_at_any_depth() -> None:
    state, _ = state_of({"a": {"b": [{"c": 1}]}})
    assert state.a.b[0].c == state["a"]["b"][0]["c"] == 1
    state.a.d = {"e": 2}
    state.update(f={"g": {"h": 3}})
    assert (state.a.d.e, state.f.g.h) == (2, 3)
    del state.f.g
    assert state["f"] == {}
    for missing in (lambda: state.nothing, lambda: delattr(state, "nothing")):
        with pytest.raises(AttributeError, match="there is no nothing"):
            missing()
    assert not hasattr(state, "other")


def test_a_nested_object_that_was_read_stays_the_same_object() -> None:
    state, injection = state_of({"lines": [1], "inner": {}})
    lines, inner = state.lines, state.inner
    assert state["lines"] is state.lines is lines
    lines.append(2)
    inner.n = 1
    assert injection.changed_state(1000) == ('{"lines":[1,2],"inner":{"n":1}}', [])


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON))
def test_a_state_that_is_only_read_is_not_changed(value: dict[str, Any]) -> None:
    state, injection = state_of(value)
    assert state == value
    assert copy.deepcopy(state) == value
    assert json.loads(json.dumps(state)) == value
    assert injection.changed_state(10**6) == (None, [])


def test_a_missing_parameter_has_the_tools_default_or_none() -> None:
    names = ["agent_state", "ctx", "agent_id", "client"]
    assert Injection(takes, names, {}).arguments == {"agent_state": {}, "client": None}
    given = {"ctx": {"a": 1}, "agent_id": "me", "client": 7}
    assert Injection(takes, names, given).arguments == {"agent_state": {}, **given}
    assert isinstance(Injection(takes, names, given).arguments["ctx"], AttributeDict)
    assert Injection(print, ["ctx"], {}).arguments == {"ctx": {}}
