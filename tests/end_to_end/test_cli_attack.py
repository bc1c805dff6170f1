"""`sandbox doctor --attack`: whoever runs it learns which walls hold on their own host."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox.attacks import ATTACKS, THEMES
from sandbox.policy import load
from tests.end_to_end.command_line import environment, sandbox
from tests.unprivileged import AS_NOBODY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def siege(store: Path) -> dict[str, Any]:
    answer = sandbox("doctor", "--attack", "--json", timeout=200, env={"SANDBOX_ARTIFACTS": str(store)})
    assert answer.stderr == ""
    found: dict[str, Any] = json.loads(answer.stdout)
    assert answer.returncode == (0 if found["all_held"] else 5)
    return found


def test_every_attack_is_tried_and_held(siege: dict[str, Any]) -> None:
    assert set(siege["attacks"]) == {attack.name for attack in ATTACKS}
    assert {name: told["how"] for name, told in siege["attacks"].items() if not told["held"]} == {}
    assert siege["all_held"] is True
    assert siege["not_asked"] == []


def test_nothing_of_it_is_kept(siege: dict[str, Any], store: Path) -> None:
    assert list(store.iterdir()) == []


def test_it_is_told_what_was_tried_and_around_what(siege: dict[str, Any]) -> None:
    assert (siege["backend"], siege["isolation"], siege["policy"]) == ("subprocess", "process", "default")
    assert all(told["tries"] and told["how"] for told in siege["attacks"].values())


def test_a_policy_is_attacked_by_what_it_does_not_permit_itself() -> None:
    answer = sandbox("doctor", "--attack", "--policy", "trusted", timeout=200, env={"COLUMNS": "90"})
    for theme, attacks in THEMES.items():
        assert f"\n{theme}\n" in answer.stdout
        for attack in attacks:
            assert (attack.name in answer.stdout.split("Not tried")[0]) == attack.is_asked(load("trusted"))
    assert (
        "Not tried, because the policy permits it: services of the host, addresses outside, the way by a proxy."
        in " ".join(answer.stdout.split())
    )
    assert max(map(len, answer.stdout.splitlines())) <= 90
    assert answer.returncode == (5 if "✗" in answer.stdout else 0)


def test_a_policy_that_nothing_here_can_enforce_is_refused_as_calls_are() -> None:
    answer = sandbox("doctor", "--attack", "--policy", "strict", "--backend", "subprocess")
    assert answer.returncode == 5
    assert "strict" in answer.stderr


def test_without_attacks_every_policy_is_tried() -> None:
    answer = sandbox("doctor", "--policy", "strict")
    assert answer.returncode == 2
    assert "--attack" in answer.stderr


def test_without_root_it_says_what_no_control_group_counts(unprivileged_python: Path) -> None:
    answer = subprocess.run(
        [unprivileged_python, "-m", "sandbox", "doctor", "--attack", "--json"],
        cwd="/",
        env=environment(HOME="/nonexistent"),
        capture_output=True,
        text=True,
        check=False,
        **AS_NOBODY,
    )
    found = json.loads(answer.stdout)
    through = {name: told["how"] for name, told in found["attacks"].items() if not told["held"]}
    assert set(through) <= {"memory that no process has"}, through
    assert all("memory is limited by watcher (counts neither socket buffers" in how for how in through.values())
    assert answer.returncode == (5 if through else 0)
