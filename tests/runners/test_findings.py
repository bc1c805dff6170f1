"""What a call's processes tell of their walls is found anew for each of them, and put into words once."""

from __future__ import annotations

import json
import os
import resource
from typing import Any

import pytest

import call_pipes as pipes
import findings
import measure


@pytest.fixture
def plan() -> dict[str, Any]:
    return {"namespaces": [], "around": measure.namespaces(), "workplace": None, "required": []}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The records that the zygote would get."""
    records: list[dict[str, Any]] = []
    monkeypatch.setattr(pipes, "tell", lambda *several: records.extend(json.loads(each) for each in several))
    return records


def learn(plan: dict[str, Any], told: list[dict[str, Any]]) -> None:
    """As the zygote does from the first child."""
    assert findings.Found(plan, None).tell()
    walls, spent = told
    findings.remember(plan, spent["said"], pipes.as_record(walls))
    told.clear()


def test_what_was_found_before_is_told_in_the_same_words(plan: dict[str, Any], told: list[dict[str, Any]]) -> None:
    learn(plan, told)
    plan["known"] = (plan["known"][0], b'{"walls": "as before"}')
    assert findings.Found(plan, None).tell()
    assert told[0] == {"walls": "as before"}
    assert list(told[1]) == ["cpu_s"]


def test_what_was_not_found_before_is_told_as_it_is(plan: dict[str, Any], told: list[dict[str, Any]]) -> None:
    learn(plan, told)
    plan["known"] = (plan["known"][0], b'{"walls": "as before"}')
    plan["around"] = {**plan["around"], "network": "net:[1]"}
    assert findings.Found(plan, None).tell()
    assert told[0]["walls"]["namespaces"] == ["network"]


def test_a_limit_that_is_not_as_before_is_told_as_it_is(plan: dict[str, Any], told: list[dict[str, Any]]) -> None:
    learn(plan, told)
    said, words = plan["known"]
    plan["known"] = ([[0, *part[1:]] if part == _limits() else part for part in said], words)
    assert findings.Found(plan, None).tell()
    assert told[0]["walls"]["limits"]["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def test_a_wall_that_is_missing_is_told_and_never_known(plan: dict[str, Any], told: list[dict[str, Any]]) -> None:
    plan["required"] = ["pid_namespace"]
    assert not findings.Found(plan, None).tell()
    assert [list(record) for record in told] == [["fault"]]
    assert told[0]["fault"]["layer"] == "pid_namespace"
    assert "known" not in plan


@pytest.mark.parametrize("required", [[], ["pid_namespace"]])
def test_a_guard_learns_what_the_tools_process_told(
    plan: dict[str, Any], told: list[dict[str, Any]], required: list[str]
) -> None:
    plan["required"] = required
    found = findings.Found(plan, None)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if found.tell() else 1)
    os.waitpid(pid, 0)
    assert found.tell_if_untold() is (not required)
    assert told == []


def test_a_guard_tells_for_a_process_that_died_before_it_could(
    plan: dict[str, Any], told: list[dict[str, Any]]
) -> None:
    found = findings.Found(plan, None)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert found.tell_if_untold()
    assert told[0]["walls"]["uid"] == os.getuid()


def _limits() -> list[int]:
    said: list[Any] = measure.read({"around": {}, "workplace": None}, None)
    limits: list[int] = said[6]
    return limits
