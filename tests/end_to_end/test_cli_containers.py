"""Containers from the command line: however they are chosen, what a user types does what it does with other boxes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest

from sandbox import Sandbox
from sandbox.backends.container.backend import ContainerBackend
from sandbox.doctor.attacks import ATTACKS
from sandbox.images import BaseImage
from tests.checkout import ROOT
from tests.end_to_end.command_line import sandbox
from tests.provision.docker_daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.root]

TOOL: Final = "examples/fibonacci.py"
CALL: Final = ("run", TOOL, "-a", "count=5")
AS_ARGUMENT: Final = ("--backend", "container")
OF_THE_PLACE: Final = {"receipt", "usage", "timing", "call_id", "environment"}
ATTACK_S: Final = 200

Typed = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def typed(docker_daemon: str, base_image: BaseImage, tmp_path_factory: pytest.TempPathFactory) -> Typed:
    """Type one command, where that daemon is the machine's and nothing else is configured."""
    nothing = str(tmp_path_factory.mktemp("settings"))

    def type(*words: object, env: dict[str, str] | None = None, **options: Any) -> CompletedProcess[str]:
        return sandbox(*words, env={"DOCKER_HOST": docker_daemon, "XDG_CONFIG_HOME": nothing, **(env or {})}, **options)

    return type


def document(answer: CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.stdout)
    assert answer.stderr == ""
    return found


@pytest.fixture(params=["argument", "variable", "file"])
def chosen(request: pytest.FixtureRequest, typed: Typed, tmp_path: Path) -> Typed:
    """Type one command with containers chosen in one of the three ways."""
    settings = tmp_path / "settings.toml"
    settings.write_text('backend = "container"\n')
    words = AS_ARGUMENT if request.param == "argument" else ()
    variables = {"variable": {"SANDBOX_BACKEND": "container"}, "file": {"SANDBOX_CONFIG": str(settings)}}
    return lambda *said: typed(*said, *words, env=variables.get(request.param))


def test_a_tool_runs_in_a_container_however_that_is_chosen(chosen: Typed) -> None:
    told = document(chosen(*CALL, "--json"))
    assert (told["status"], told["value"]) == ("ok", [0, 1, 1, 2, 3])
    assert (told["receipt"]["backend"], told["receipt"]["runtime"]) == ("container", "runc")


def test_what_is_said_to_the_command_counts_most(typed: Typed) -> None:
    answer = typed(*CALL, "--backend", "subprocess", "--json", env={"SANDBOX_BACKEND": "container"})
    assert document(answer)["receipt"]["backend"] == "subprocess"


def test_a_terminal_shows_what_it_shows_of_any_box(typed: Typed) -> None:
    answer = typed(*CALL, *AS_ARGUMENT)
    assert (answer.returncode, answer.stdout) == (0, "[0, 1, 1, 2, 3]\n")
    (figures,) = answer.stderr.splitlines()
    assert figures.startswith("ok · ")
    assert figures.endswith(" · cold · container")


def test_an_outcome_is_the_same_document_in_either_kind_of_box(docker_daemon: str, base_image: BaseImage) -> None:
    with (
        Sandbox(backend="subprocess") as processes,
        Sandbox(backend=ContainerBackend(host=docker_daemon)) as containers,
    ):
        for count in (5, 5000, "many"):
            here, there = (
                json.loads(each.run(ROOT / TOOL, {"count": count}).to_json()) for each in (processes, containers)
            )
            assert here.keys() == there.keys()
            same = here.keys() - OF_THE_PLACE
            assert {name: here[name] for name in same} == {name: there[name] for name in same}
            for part in OF_THE_PLACE - {"call_id"}:
                assert (here[part] or {}).keys() == (there[part] or {}).keys()


def test_a_policy_for_hostile_tools_runs_in_gvisor(typed: Typed) -> None:
    receipt = document(typed(*CALL, *AS_ARGUMENT, "--policy", "strict", "--json"))["receipt"]
    assert (receipt["runtime"], receipt["isolation"]) == ("runsc", "machine")


@pytest.mark.parametrize("words", [CALL, ("doctor",)], ids=["run", "doctor"])
def test_without_a_daemon_one_line_says_so_and_one_what_to_do(words: tuple[str, ...], typed: Typed) -> None:
    answer = typed(*words, *AS_ARGUMENT, env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert (answer.returncode, answer.stdout) == (5, "")
    assert answer.stderr.splitlines() == [
        "error: no Docker daemon answers at unix:///nowhere/docker.sock",
        "  → start Docker, or name a daemon that runs in DOCKER_HOST",
    ]


def test_a_runtime_that_is_not_there_is_refused_with_those_that_are(typed: Typed) -> None:
    answer = typed(*CALL, *AS_ARGUMENT, env={"SANDBOX_RUNTIME": "kata"})
    assert (answer.returncode, answer.stdout) == (5, "")
    assert "the daemon has no runtime 'kata'; it has" in answer.stderr
    assert "runsc" in answer.stderr


def test_a_daemon_without_an_image_is_reported_with_the_remedy(own_daemon: Daemon, typed: Typed) -> None:
    answer = typed(*CALL, *AS_ARGUMENT, env={"DOCKER_HOST": own_daemon.url})
    assert (answer.returncode, answer.stdout) == (5, "")
    assert answer.stderr.splitlines()[-1] == "  → run `sandbox image bootstrap`"


def test_the_doctor_says_what_containers_give(typed: Typed) -> None:
    answer = typed("doctor", *AS_ARGUMENT, "--json")
    told = document(answer)
    assert (answer.returncode, told["backend"], told["isolation"]) == (0, "container", "container")
    assert told["default_runs"] is True
    assert [name for name, policy in told["policies"].items() if not policy["runs"]] == ["packages"]
    assert [name for name, limit in told["limits"].items() if not limit["bites"]] == []


@pytest.mark.timeout(240, func_only=True)
def test_the_doctor_attacks_containers_that_are_kept_and_every_wall_holds(typed: Typed) -> None:
    answer = typed("doctor", "--attack", *AS_ARGUMENT, "--json", timeout=ATTACK_S)
    told = document(answer)
    assert {name: found["how"] for name, found in told["attacks"].items() if not found["held"]} == {}
    assert set(told["attacks"]) == {attack.name for attack in ATTACKS}
    assert (told["backend"], told["runtime"], told["isolation"]) == ("container", "runc", "container")
    assert (answer.returncode, told["all_held"], told["not_asked"]) == (0, True, [])
