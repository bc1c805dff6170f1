"""A request gives a box everything that differs between calls."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from sandbox.engine.inputs import Inputs
from sandbox.engine.request import (
    RequestHead,
    box_environment,
    build_request,
    complete_request,
    lowered_limits,
    request_head,
)
from sandbox.policy import Policy, load
from sandbox.policy.model import Variables
from sandbox.spec import CallSpec
from sandbox.tools import read_tool

POLICY: Final = load("default")
SOURCE: Final = "def tool(a, b, /, c, *, d):\n    pass\n"


def request_of(source: str = SOURCE, *, arguments: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    spec = CallSpec(source=source, **fields)
    found: dict[str, Any] = json.loads(
        build_request(spec, read_tool(source, filename=spec.filename), arguments or {}, POLICY)
    )
    return found


def limited(**limits: Any) -> Policy:
    return POLICY.model_copy(update={"limits": POLICY.limits.model_copy(update=limits)})


def test_a_request_holds_source_name_entry_and_arguments() -> None:
    request = request_of(arguments={"a": 1, "é": ["😀"]}, filename="my tool.py")
    assert request["source"] == SOURCE
    assert (request["filename"], request["entry"]) == ("my_tool.py", "tool")
    assert request["arguments"] == {"a": 1, "é": ["😀"]}
    assert request["value_limit"] == POLICY.limits.value


def test_a_request_is_ascii_for_every_source() -> None:
    spec = CallSpec(source="def tool():\n    return 'é😀'\n")
    assert build_request(spec, read_tool(spec.source), {}, POLICY).isascii()


def test_positional_only_parameters_are_listed_in_order() -> None:
    assert request_of()["positional"] == ["a", "b"]
    assert request_of("def tool(a):\n    pass\n")["positional"] == []


def completed(head: RequestHead, inputs: Inputs, *, streams: bool = False, **fields: Any) -> dict[str, Any]:
    spec = CallSpec(source=SOURCE, **fields)
    found: dict[str, Any] = json.loads(complete_request(head, spec, inputs, streams=streams))
    return found


@pytest.mark.parametrize("source", ["def tool(a, agent_state):\n    pass\n", "def tool(a: set):\n    pass\n"])
def test_data_of_a_call_does_not_reach_the_next(source: str) -> None:
    head = request_head(read_tool(source), POLICY)
    first = completed(
        head,
        Inputs('{"a":1}', '{"agent_state":{"n":1}}'),
        streams=True,
        permitted=True,
        env={"OWN": "1"},
        env_layers=({"OF_THE_TENANT": "2"},),
    )
    second = completed(head, Inputs('{"a":2}'))
    assert (first["given"], first["permitted"], first["streams"]) == ({"agent_state": {"n": 1}}, True, True)
    assert (second["given"], second["permitted"], "streams" in second) == ({}, False, False)
    assert [each["arguments"]["a"] for each in (first, second)] == [1, 2]
    assert first["environment"].keys() - second["environment"].keys() == {"OWN", "OF_THE_TENANT"}
    assert first["environment"]["SANDBOX_CALL_ID"] != second["environment"]["SANDBOX_CALL_ID"]


def test_a_host_variable_is_read_when_the_call_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = POLICY.model_copy(update={"variables": Variables(passed=("OF_THE_HOST",))})
    head = request_head(read_tool(SOURCE), policy)
    seen = []
    for text in ("one", 'two "quoted" é'):
        monkeypatch.setenv("OF_THE_HOST", text)
        seen.append(completed(head, Inputs())["environment"]["OF_THE_HOST"])
    assert seen == ["one", 'two "quoted" é']


def environment_of(**fields: Any) -> dict[str, str]:
    """Return the variables of the tool: those of its box, and over them those of its call."""
    return {**box_environment(POLICY), **request_of(**fields)["environment"]}


def test_no_variable_of_the_host_reaches_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "secret")
    monkeypatch.setenv("PATH", "/host/bin")
    environment = environment_of()
    assert "SECRET_OF_THE_HOST" not in environment
    assert "/host/bin" not in environment["PATH"]


def test_variables_of_the_call_replace_the_usual_ones() -> None:
    environment = environment_of(env={"LANG": "de_DE.UTF-8", "OWN": "1"})
    assert (environment["LANG"], environment["OWN"], environment["HOME"]) == ("de_DE.UTF-8", "1", "/work")


@pytest.mark.parametrize("name", ["PYTHON_CPU_COUNT", "OMP_NUM_THREADS", "SANDBOX_CALL_ID", "SANDBOX_TOOL"])
def test_variables_of_the_call_do_not_replace_those_of_the_engine(name: str) -> None:
    assert environment_of(env={name: "forged"})[name] != "forged"


def test_a_tool_gets_its_identity_and_its_limits() -> None:
    environment = environment_of(call_id="call-1")
    assert (environment["SANDBOX_CALL_ID"], environment["SANDBOX_TOOL"]) == ("call-1", "tool")
    assert 1 <= int(environment["PYTHON_CPU_COUNT"]) <= POLICY.limits.cpus


def test_limits_equal_to_those_of_the_box_are_not_sent() -> None:
    assert lowered_limits(POLICY, POLICY) == {}


def test_limits_below_those_of_the_box_are_sent() -> None:
    assert lowered_limits(limited(open_files=5, file_size=6), POLICY) == {"open_files": 5, "file_size": 6}


@pytest.mark.parametrize(("asked", "told"), [(0.1, 1), (1.0, 2), (2.5, 3)])
def test_processor_time_is_exact_and_rounded_up_for_the_kernel(asked: float, told: int) -> None:
    assert lowered_limits(limited(cpu=asked), POLICY) == {"cpu": told, "cpu_s": asked}


def test_limits_that_shape_the_box_are_not_sent() -> None:
    assert lowered_limits(limited(memory=1 << 20, processes=1, disk=1, inodes=16, cpus=1), POLICY) == {}
