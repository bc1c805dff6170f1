"""The shipped attacks tell a hole from isolation: what arrives on the host counts, and a crash is no defence."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox
from sandbox.doctor.attacks import ATTACKS, PROGRAMS, THEMES, Attack, AttackFinding, Program, attack_all
from sandbox.doctor.attacks import stage as stages
from sandbox.doctor.attacks.packages import PACKAGES, SURVIVOR, Look, look, make_wheels, policy_with
from sandbox.doctor.attacks.stage import Stage
from sandbox.outcome import EnforcedBy, LimitState, Receipt, Status
from sandbox.policy import load
from sandbox.testing import Answer, FakeBackend, crashes, raises

BY_NAME: Final = {program.name: program for program in PROGRAMS}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as opened:
        yield opened


def _without_a_box(name: str, stage: Stage) -> Any:
    """Return the output of the attack's program when nothing isolates it."""
    program = BY_NAME[name]
    names: dict[str, Any] = {"__file__": __file__}
    exec(program.source, names)
    return names["attack"](**{fact: stage.facts[fact] for fact in program.facts})


def _gained_apart(name: str, stage: Stage) -> list[str]:
    """Run the attack in a process with its own copy of the inputs and without a folder /work; return its gain."""
    source = BY_NAME[name].source.replace("/work/", f"{Path(stage.facts['secrets'][0]).parent}/.")
    program = f"{source}\nimport json\nprint(json.dumps(attack()))"
    answer = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    gained: list[str] = json.loads(answer.stdout)["gained"]
    return gained


@pytest.mark.slow
def test_the_stage_notices_messages_to_the_host(stage: Stage) -> None:
    said = _without_a_box("services of the host", stage)
    assert len(said["gained"]) >= 3  # Nothing answers datagrams, and an old host has no IPv6.
    heard = stage.complaints("")
    assert len(heard) == len(stage.facts["addresses"])
    assert stage.complaints("") == []


@pytest.mark.root
def test_the_stage_notices_messages_in_a_shown_folder(stage: Stage) -> None:
    said = _without_a_box("socket in a shown folder", stage)
    assert said == {"tried": 3, "gained": ["a stream", "a datagram", "a datagram from a pair"]}
    spoken_to = [f"a process spoke to the host's shown {name} socket" for name in ("stream", "datagram")]
    assert stage.complaints("") == spoken_to


def test_a_lease_is_noticed_without_isolation(stage: Stage) -> None:
    assert any(what.startswith("notices of ") for what in _gained_apart("lease on a shown file", stage))


def test_an_attack_without_its_folder_is_skipped_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "_show", lambda *_: "")
    finding = _finding(BY_NAME["socket in a shown folder"], {"tried": 3, "gained": []})
    assert (finding.held, finding.how.partition(":")[0]) == (False, "not tried")


def test_the_policy_shows_the_folder_for_that_attack_alone() -> None:
    assert {program.name for program in PROGRAMS if program.shows} == {"socket in a shown folder"}
    assert _finding(BY_NAME["socket in a shown folder"], {"tried": 3, "gained": []}).held


def test_a_secret_of_the_host_is_found_without_isolation(stage: Stage) -> None:
    assert {*stage.facts["secrets"]} <= {*_without_a_box("files of the host", stage)["gained"]}


def test_a_secret_that_leaves_a_box_is_noticed(stage: Stage) -> None:
    with open(stage.facts["secrets"][0]) as file:
        assert stage.complaints(f"it is {file.read()}") == ["a secret of the host came back"]


def test_leftovers_of_a_killed_campaign_are_removed_but_no_running_ones(stage: Stage) -> None:
    needed = [Path(path) for path in stage.facts["secrets"]]
    file, folder = (needed[0].with_name(f"sandbox-attack-{kind}-of-a-dead-one") for kind in ("file", "folder"))
    file.write_text("a secret")
    folder.mkdir()
    for path in (file, folder, *needed):
        os.utime(path, (0, 0))
    with Stage():
        assert not file.exists()
        assert not folder.exists()
        assert all(path.exists() for path in needed)


def test_no_signal_is_sent_among_processes_of_the_host(stage: Stage) -> None:
    assert _without_a_box("signals", stage)["gained"]
    assert stage.complaints("") == []


def test_a_killed_process_of_the_host_is_noticed(stage: Stage) -> None:
    os.kill(stage.facts["bystander"], signal.SIGKILL)
    os.waitid(os.P_PID, stage.facts["bystander"], os.WEXITED | os.WNOWAIT)
    assert stage.complaints("") == ["a process of the host was killed"]


def _finding(program: Program, answer: Answer) -> AttackFinding:
    attack = Attack("one", "tries one program", (program,))

    async def find() -> AttackFinding:
        backend = FakeBackend(answers={"attack": answer, "serve": "served"})
        async with AsyncSandbox(backend=backend) as engine:
            (finding,) = [found async for found in attack_all(engine, load("default"), [attack])]
        return finding

    return asyncio.run(find())


def test_an_attack_that_gained_nothing_was_held() -> None:
    finding = _finding(BY_NAME["mounts"], {"tried": 3, "gained": []})
    assert (finding.held, finding.how) == (True, "refused, all 3 ways")


@pytest.mark.parametrize(
    "answer",
    [
        {"tried": 3, "gained": ["fsopen"]},
        {"tried": 0, "gained": []},
        None,
        "held",
        raises(OSError("broken")),
        crashes(11),
    ],
    ids=str,
)
def test_an_attack_that_gained_something_or_crashed_was_not_held(answer: Any) -> None:
    assert not _finding(BY_NAME["mounts"], answer).held


def test_a_call_that_missed_its_expected_limit_was_not_held() -> None:
    assert not _finding(BY_NAME["disk"], None).held


def test_wheels_of_attacks_are_valid_and_reproducible(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
        make_wheels(folder)
    first, second = ({wheel.name: wheel.read_bytes() for wheel in folder.iterdir()} for folder in folders)
    assert first == second
    assert len(first) == sum(len(attack.programs) for attack in PACKAGES)
    for wheel in folders[0].iterdir():
        with zipfile.ZipFile(wheel) as archive:
            assert archive.testzip() is None
            (record,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/RECORD")]
            assert {line.split(",")[0] for line in record.splitlines()} == set(archive.namelist())
            for module in [name for name in archive.namelist() if name.endswith(".py")]:
                compile(archive.read(module), module, "exec")


def test_packages_come_from_the_stage_only(stage: Stage) -> None:
    policy = policy_with(load("default"), stage.wheelhouse())
    assert policy.supply.offline
    assert [Path(folder) for folder in policy.supply.wheelhouse] == [stage.wheelhouse()]
    assert policy.limits.memory < load("default").limits.memory


def _receipt() -> Receipt:
    state = {"in_force": True, "measured_by": "read_outside"}
    details = {"seccomp": "2 filters", "capabilities": "none held", "no_new_privs": "", "mount_namespace": "its own"}
    policy = {"name": "default", "digest": ""}
    told = {"backend": "fake", "isolation": "process", "network": "none", "user": "1", "environment_digest": ""}
    layers = {name: {"detail": detail, **state} for name, detail in details.items()}
    return Receipt.model_validate({**told, "layers": layers, "limits": {}, "policy": policy})


WALLED: Final = {
    "Seccomp_filters": "2",
    "NoNewPrivs": "1",
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), 16 * "0"),
}


def test_a_receipt_that_matches_the_kernel_is_true() -> None:
    assert Look(WALLED).complaints(_receipt()) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Look({**WALLED, "Seccomp_filters": "1"}), "2 filters"),
        (Look({**WALLED, "CapEff": "000001ffffffffff"}), "no capability"),
        (Look({**WALLED, "NoNewPrivs": "0"}), "no_new_privs"),
        (Look(WALLED, shared=("mount",)), "mount namespace"),
        (Look(WALLED, processes=1000), "1000 processes"),
        (Look(WALLED, memory=1 << 40), "MiB"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_receipt_that_differs_from_the_kernel_is_noticed(seen: Look, said: str) -> None:
    (complaint,) = seen.complaints(_receipt())
    assert said in complaint


def test_memory_beyond_a_watched_limit_is_allowed_until_the_call_ends() -> None:
    watched = {"memory": LimitState(value=1, enforced_by=EnforcedBy.WATCHER)}
    receipt = _receipt().model_copy(update={"limits": watched})
    assert Look(WALLED, memory=1 << 40).complaints(receipt, Status.MEMORY) == []
    assert Look(WALLED, memory=1 << 40).complaints(receipt, Status.OK)
    assert Look(WALLED, memory=1 << 40).complaints(_receipt(), Status.MEMORY)


def test_a_process_that_a_package_left_is_noticed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_PATIENCE_S", 0.0)
    with subprocess.Popen(["sleep", "60"], executable="/bin/sleep") as process:
        try:
            assert stage.complaints("") == []
        finally:
            process.kill()
    with subprocess.Popen([SURVIVOR, "60"], executable="/bin/sleep") as process:
        try:
            assert stage.complaints("") == ["a process outlived its call"]
            assert look().processes == 1
        finally:
            process.kill()


def test_every_attack_has_a_unique_name_and_a_description() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) == sum(map(len, THEMES.values()))
    assert len(BY_NAME) == len(PROGRAMS)
    assert all(attack.tries and attack.programs for attack in ATTACKS)
    assert all(program.source.strip() for program in PROGRAMS)


def test_a_finding_names_the_programs_of_its_attack_that_got_through() -> None:
    answers = {"first": {"tried": 3, "gained": []}, "second": {"tried": 1, "gained": ["a mount"]}}

    async def find(*names: str) -> AttackFinding:
        programs = tuple(Program(name, f"def {name}(): ...\n", entries=(name,)) for name in names)
        async with AsyncSandbox(backend=FakeBackend(answers={**answers, "serve": "served"})) as engine:
            attack = Attack("both", "tries both programs", programs)
            (finding,) = [found async for found in attack_all(engine, load("default"), [attack])]
        return finding

    finding = asyncio.run(find("first", "second"))
    assert (finding.held, finding.how) == (False, "second: it got through: a mount")
    finding = asyncio.run(find("first", "first"))
    assert (finding.held, finding.how) == (True, "first: refused, all 3 ways; first: refused, all 3 ways")
