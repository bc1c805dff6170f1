"""`sandbox doctor`: what it says of this host is what calls on this host get."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.hints import PURPOSES
from sandbox.backends.limit_probes import PROBED
from sandbox.outcome import EnforcedBy, MeasuredBy
from sandbox.policy import list_shipped, load
from tests.checkout import ROOT
from tests.end_to_end.command_line import sandbox
from tests.unprivileged import AS_NOBODY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def checkup(store: Path) -> dict[str, Any]:
    answer = sandbox("doctor", "--json", env={"SANDBOX_ARTIFACTS": str(store)})
    found: dict[str, Any] = json.loads(answer.stdout)
    assert answer.returncode == (0 if found["default_runs"] else 5)
    assert answer.stderr == ""
    return found


def test_every_layer_policy_and_limit_is_there(checkup: dict[str, Any]) -> None:
    assert set(checkup["layers"]) == set(PURPOSES)
    assert set(checkup["policies"]) == set(list_shipped())
    assert set(checkup["limits"]) == set(PROBED)


def test_every_limit_names_its_keeper(checkup: dict[str, Any]) -> None:
    assert {limit["enforced_by"] for limit in checkup["limits"].values()} <= set(EnforcedBy) - {EnforcedBy.NONE}


def test_every_limit_bites(checkup: dict[str, Any]) -> None:
    assert [name for name, limit in checkup["limits"].items() if not limit["bites"]] == []


def test_nothing_of_it_is_kept(checkup: dict[str, Any], store: Path) -> None:
    assert list(store.iterdir()) == []


def test_what_is_missing_comes_with_a_remedy(checkup: dict[str, Any]) -> None:
    for layer in checkup["layers"].values():
        assert layer["purpose"]
        assert layer["in_force"] or layer["remedy"]
        assert layer["measured_by"] in set(MeasuredBy)
    for policy in checkup["policies"].values():
        assert policy["runs"] or (policy["message"] and policy["remedy"])


def test_a_policy_runs_where_the_walls_it_requires_are_up(checkup: dict[str, Any]) -> None:
    for name in ("default", "offline", "batch"):
        required = [layer.value for layer in load(name).isolation.require]
        assert checkup["policies"][name]["runs"] == all(checkup["layers"][layer]["in_force"] for layer in required)


def test_what_nothing_here_can_enforce_is_refused(checkup: dict[str, Any]) -> None:
    assert {name for name, policy in checkup["policies"].items() if not policy["runs"]} >= {
        "strict",
        "packages",
    }


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_for_people_says_the_same(checkup: dict[str, Any], width: int) -> None:
    shown = sandbox("doctor", env={"COLUMNS": str(width)}).stdout
    assert max(map(len, shown.splitlines())) <= width
    for name, layer in checkup["layers"].items():
        assert f" {'✓' if layer['in_force'] else '✗'}   {name}" in shown
    for name, policy in checkup["policies"].items():
        assert f" {'✓' if policy['runs'] else '✗'}   {name}" in shown
    assert "every limit bites." in shown


def test_without_root_it_says_what_root_would_add(unprivileged_python: Path) -> None:
    answer = subprocess.run(
        [unprivileged_python, "-m", "sandbox", "doctor", "--json"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **AS_NOBODY,
    )
    found = json.loads(answer.stdout)
    if "layers" in found:
        assert found["layers"]["own_uid"]["in_force"] is False
        assert "root" in found["layers"]["own_uid"]["remedy"]
        assert answer.returncode == (0 if found["default_runs"] else 5)
    else:
        assert answer.returncode == 5
        assert found["error"]["message"]
    assert "Traceback" not in answer.stderr


def test_the_probe_program_is_never_imported() -> None:
    importers = [path for path in (ROOT / "sandbox").rglob("*.py") if "import limit_probe_program" in path.read_text()]
    assert importers == []
