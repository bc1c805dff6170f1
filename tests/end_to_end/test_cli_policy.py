"""`sandbox policy`: what there is, what it says, and what enforces it here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox import Sandbox
from sandbox.backends.hints import PURPOSES
from sandbox.outcome import EnforcedBy, MeasuredBy
from sandbox.policy import list_shipped, load
from tests.end_to_end.calls import TRIVIAL
from tests.end_to_end.command_line import sandbox

pytestmark = pytest.mark.slow


def test_every_shipped_policy_is_listed_with_its_first_sentence() -> None:
    listed = json.loads(sandbox("policy", "list", "--json").stdout)
    assert [each["name"] for each in listed] == list(list_shipped())
    for each in listed:
        description = load(each["name"]).description
        assert description.startswith(each["purpose"])
        assert each["purpose"].endswith(".")
    shown = sandbox("policy", "list").stdout
    assert all(name in shown for name in list_shipped())


@pytest.mark.parametrize("columns", ["0", "1", "20"])
def test_names_are_whole_however_narrow_the_terminal_says_it_is(columns: str) -> None:
    shown = sandbox("policy", "list", env={"COLUMNS": columns}).stdout
    assert [name for name in list_shipped() if f" {name} " not in shown] == []


@pytest.mark.parametrize("name", list_shipped())
def test_a_policy_is_shown_whole(name: str) -> None:
    shown = sandbox("policy", "show", name)
    policy = load(name)
    assert shown.returncode == 0
    for section in policy.sections().values():
        for key in type(section).model_fields:
            assert key in shown.stdout
    document = json.loads(sandbox("policy", "show", name, "--json").stdout)
    assert document["digest"] == policy.digest
    assert document["limits"] == policy.model_dump(mode="json")["limits"]


def test_a_policy_file_is_shown_with_what_it_extends(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('description = "[bold]mine[/bold] \\u001b[31m"\nextends = "default"\n[limits]\nwall = "5s"\n')
    shown = sandbox("policy", "show", file).stdout
    assert "[bold]mine[/bold] \\u001b[31m" in shown
    assert "5 s" in shown
    assert "512 MiB" in shown


def test_an_explanation_covers_every_line_and_every_wall() -> None:
    document = json.loads(sandbox("policy", "explain", "default", "--json").stdout)
    policy = load("default")
    keys = {f"{name}.{key}" for name, part in policy.sections().items() for key in type(part).model_fields}
    assert set(document["lines"]) == keys
    assert all(line["meaning"] and line["enforced_by"] in set(EnforcedBy) for line in document["lines"].values())
    assert set(document["walls"]) == set(PURPOSES)
    required = {name for name, wall in document["walls"].items() if wall["required"]}
    assert required == {layer.value for layer in policy.isolation.require}
    assert document["runs"] == all(document["walls"][name]["in_force"] for name in required)
    assert {wall["measured_by"] for wall in document["walls"].values()} <= set(MeasuredBy)


def test_a_policy_that_is_refused_here_is_explained_all_the_same() -> None:
    answer = sandbox("policy", "explain", "strict")
    assert answer.returncode == 0
    assert "Refused on this host: policy 'strict' accepts nothing weaker than a container" in answer.stdout


def test_the_explanation_of_a_network_names_the_engines_proxy() -> None:
    document = json.loads(sandbox("policy", "explain", "network", "--json").stdout)
    assert document["runs"] is True
    lines = {key: line for key, line in document["lines"].items() if key.startswith("network.")}
    assert {line["enforced_by"] for line in lines.values()} == {"network"}
    assert lines.pop("network.mode")["note"] == "network namespace: its own; interfaces: lo; the engine's proxy"
    assert {line["note"] for line in lines.values()} == {"the engine's proxy"}
    without = json.loads(sandbox("policy", "explain", "default", "--json").stdout)["lines"]["network.hosts"]
    assert (without["enforced_by"], without["note"]) == ("none", "only policies of mode public use this")


def test_the_explanation_and_the_receipt_use_the_same_words() -> None:
    document = json.loads(sandbox("policy", "explain", "default", "--json").stdout)
    with Sandbox() as engine:
        receipt = engine.run(TRIVIAL, {"a": 1, "b": 2}).receipt
    assert receipt is not None
    for name, state in receipt.limits.items():
        line = document["lines"][f"limits.{name}"]
        assert (line["enforced_by"], line["note"]) == (state.enforced_by.value, state.note)
    for name, layer in receipt.layers.items():
        assert document["walls"][name]["measured_by"] == layer.measured_by.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "says"), [("none", "no unix sockets but pairs"), ("host", "unix sockets there can be reached")]
)
def test_the_explanation_of_shown_folders_says_whether_sockets_are_reached(
    mode: str, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "shows.toml"
    isolation = "require = []" if mode == "host" else ""
    shown = '[filesystem]\nreadable = ["/usr/share"]'
    file.write_text(f'description = "x"\n[network]\nmode = "{mode}"\n{shown}\n[isolation]\n{isolation}\n')
    document = json.loads(sandbox("policy", "explain", str(file), "--json").stdout)
    assert says in document["lines"]["filesystem.readable"]["note"]


def test_the_explanation_for_people_names_what_enforces() -> None:
    shown = sandbox("policy", "explain", "default").stdout
    assert "watcher: the engine's clock" in " ".join(shown.split())
    assert "read_outside: " in shown
    assert "measured" in shown
