"""`sandbox doctor --attack` shows its users which walls hold on their own host."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.doctor.attacks import ATTACKS, THEMES
from sandbox.policy import load
from tests.end_to_end.command_line import environment, sandbox
from tests.unprivileged import AS_NOBODY, NOBODY

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


def test_the_report_names_the_attacks_and_their_surroundings(siege: dict[str, Any]) -> None:
    assert (siege["backend"], siege["isolation"], siege["policy"]) == ("subprocess", "process", "default")
    assert all(told["tries"] and told["how"] for told in siege["attacks"].values())


def test_a_policy_is_attacked_by_what_it_does_not_permit_itself() -> None:
    answer = sandbox("doctor", "--attack", "--policy", "trusted", timeout=200, env={"COLUMNS": "90"})
    for theme, attacks in THEMES.items():
        assert f"\n{theme}\n" in answer.stdout
        for attack in attacks:
            assert (attack.name in answer.stdout.split("Not tried")[0]) == attack.is_asked(load("trusted"))
    permitted = "services of the host, addresses outside"
    assert f"Not tried, because the policy permits it: {permitted}." in " ".join(answer.stdout.split())
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


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of a user that owns nothing else here, where a box can show a folder."""
    with tempfile.TemporaryDirectory(prefix="sandbox-home-", dir="/var/lib") as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.mark.root
def test_without_root_every_attack_is_tried_and_held_too(unprivileged_python: Path, home: Path) -> None:
    answer = subprocess.run(
        [unprivileged_python, "-m", "sandbox", "doctor", "--attack", "--json"],
        cwd="/",
        env=environment(HOME=str(home)),
        capture_output=True,
        text=True,
        check=False,
        **AS_NOBODY,
    )
    found = json.loads(answer.stdout)
    assert {name: each["how"] for name, each in found["attacks"].items() if not each["held"]} == {}
    assert answer.returncode == 0


def test_an_attack_that_cannot_be_set_up_does_not_count_as_held(unprivileged_python: Path) -> None:
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
    through = {name: each["how"] for name, each in found["attacks"].items() if not each["held"]}
    assert "socket in a shown folder" in through["services of the host"]
    assert all("not tried" in how or "inconclusive" in how for how in through.values()), through
    assert answer.returncode == 5
