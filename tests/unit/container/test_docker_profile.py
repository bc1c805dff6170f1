"""The JSON profile allows what the compiled filter allows, call by call, and kills no process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.backends.container.seccomp import PROFILE_NAMES, ProfileName, docker_profile
from sandbox.backends.seccomp import compile_profile
from sandbox.backends.seccomp_profiles import MACHINES, Machine, Sockets, load_profile, load_table
from sandbox.errors import IsolationUnavailable
from tests.unit.subprocess.bpf_machine import run

FILES: Final[dict[ProfileName, str]] = {"runner": "runner", "strict": "tool"}
JUDGED: Final = ("socket", "socketpair", "ioctl", "fcntl", "personality", "clone")
NAMESPACES: Final = (1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30)
VALUES: Final = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 300),
    st.sampled_from(
        [*range(1020, 1045), 0x5411, 0x5412, 0x5413, 0x541C, 0x541D, 2**31 + 0x5412, 2**32 - 1, *NAMESPACES]
    ),
    st.builds(lambda low: 1 << 32 | low, st.sampled_from([0, 1, 2, 10, 40, 0x5412, 0x541C, 1 << 28])),
)


@cache
def document(name: ProfileName, machine: Machine) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(docker_profile(name, machine=machine))
    return read


@cache
def compiled(name: ProfileName, machine: Machine) -> bytes:
    return compile_profile(load_profile(FILES[name]), machine=machine, sockets=Sockets.INTERNET)


def verdicts(name: ProfileName, machine: Machine, call: str, arguments: Sequence[int]) -> set[str]:
    """Return the answers of all matching entries, because libseccomp does not say which entry wins."""

    def holds(entry: dict[str, Any]) -> bool:
        assert all(test["op"] == "SCMP_CMP_MASKED_EQ" for test in entry.get("args", ()))
        return all(arguments[test["index"]] & test["value"] == test["valueTwo"] for test in entry.get("args", ()))

    read = document(name, machine)
    found = {
        f"errno {entry['errnoRet']}" if "errnoRet" in entry else entry["action"]
        for entry in read["syscalls"]
        if call in entry["names"] and holds(entry)
    }
    return found or {"default"}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_every_call_has_the_answer_of_the_compiled_filter(name: ProfileName, machine: Machine) -> None:
    answers = {"allow": "SCMP_ACT_ALLOW", "kill": "errno 1", "EPERM": "errno 1", "ENOSYS": "errno 38"}
    wrong = {}
    for call, number in load_table()[machine].items():
        arguments = [1, 1, 0, 0, 0, 0] if call.startswith("socket") else [0] * 6
        expected = answers[run(compiled(name, machine), number, arguments, architecture=machine).verdict]
        if verdicts(name, machine, call, arguments) != {expected}:
            wrong[call] = expected
    assert wrong == {}


@pytest.mark.slow
@given(
    name=st.sampled_from(PROFILE_NAMES),
    machine=st.sampled_from(MACHINES),
    call=st.sampled_from(JUDGED),
    arguments=st.lists(VALUES, min_size=6, max_size=6),
)
@example(name="strict", machine="x86_64", call="ioctl", arguments=[0, 1 << 32 | 0x5412, 0, 0, 0, 0])
@example(name="strict", machine="x86_64", call="socket", arguments=[40, 1, 0, 0, 0, 0])
@example(name="strict", machine="x86_64", call="socket", arguments=[2, 0o2004001, 6, 0, 0, 0])
@example(name="runner", machine="aarch64", call="clone", arguments=[1 << 28 | 17, 0, 0, 0, 0, 0])
@example(name="strict", machine="aarch64", call="clone", arguments=[1 << 28 | 17, 0, 0, 0, 0, 0])
def test_arguments_have_the_answer_of_the_compiled_filter(
    name: ProfileName, machine: Machine, call: str, arguments: list[int]
) -> None:
    number = load_table()[machine][call]
    compiled_verdict = run(compiled(name, machine), number, arguments, architecture=machine).verdict
    expected = "SCMP_ACT_ALLOW" if compiled_verdict == "allow" else "default"
    assert verdicts(name, machine, call, arguments) == {expected}


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_nothing_is_killed_and_unknown_calls_look_unimplemented(name: ProfileName) -> None:
    for machine in MACHINES:
        read = document(name, machine)
        assert {entry["action"] for entry in read["syscalls"]} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
        assert (read["defaultAction"], read["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_the_profile_is_for_this_machine_alone(name: ProfileName) -> None:
    assert document(name, "x86_64")["architectures"] == ["SCMP_ARCH_X86_64"]
    assert document(name, "aarch64")["architectures"] == ["SCMP_ARCH_AARCH64"]
    named = {call for entry in document(name, "aarch64")["syscalls"] for call in entry["names"]}
    assert named == load_table()["aarch64"].keys()


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_the_runtime_has_few_rules_to_add(name: ProfileName) -> None:
    """The number is small because libseccomp copies all its rules with each new rule."""
    assert len(document(name, "x86_64")["syscalls"]) < 130


def test_an_unknown_machine_is_refused_by_name() -> None:
    with pytest.raises(IsolationUnavailable, match=r"riscv64.*x86_64, aarch64") as refused:
        docker_profile("strict", machine="riscv64")
    assert refused.value.missing == ("seccomp",)
