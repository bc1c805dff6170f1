"""Labels name the owner of a container, and decide whether that owner is dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.backends.ownership import ContainerOwner, expiry_of
from tests.checkout import ROOT

EXPIRES: Final = 1_800_000_000
TELL: Final = """
import json
from sandbox.backends.ownership import ContainerOwner
print(json.dumps(ContainerOwner.current().labels(expires_at=0)), flush=True)
"""
ELSEWHERE: Final = "0" * 32


def engine(then: str = "") -> subprocess.Popen[str]:
    """Start a process that prints the labels of its own engine and then runs this."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{TELL}\n{then}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def labels_of(process: subprocess.Popen[str]) -> ContainerOwner:
    assert process.stdout is not None
    owner = ContainerOwner.from_labels(json.loads(process.stdout.readline()))
    assert owner is not None
    return owner


def test_labels_name_the_owner() -> None:
    owner = ContainerOwner.current()
    labels = owner.labels(expires_at=EXPIRES + 0.7)
    assert ContainerOwner.from_labels(labels) == owner
    assert expiry_of(labels) == EXPIRES
    assert labels["sandbox.owner"] == owner.engine
    assert labels["sandbox.kind"] == "box"


def test_labels_of_others_are_ignored() -> None:
    owner = ContainerOwner.current()
    assert (
        ContainerOwner.from_labels({**owner.labels(expires_at=EXPIRES), "maintainer": "x", "sandbox.key": "y"}) == owner
    )


@pytest.mark.parametrize("label", sorted(ContainerOwner.current().labels(expires_at=EXPIRES)))
def test_a_missing_label_means_no_owner(label: str) -> None:
    labels = ContainerOwner.current().labels(expires_at=EXPIRES)
    del labels[label]
    assert ContainerOwner.from_labels(labels) is None


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("sandbox.owner", "sandbox-engine"),
        ("sandbox.owner", "A" * 16),
        ("sandbox.owner", "a" * 17),
        ("sandbox.host", "this one"),
        ("sandbox.boot", ""),
        ("sandbox.boot", "../../x"),
        ("sandbox.pid", "0"),
        ("sandbox.pid", "-1"),
        ("sandbox.pid", "1e3"),
        ("sandbox.pid", " 1"),
        ("sandbox.pid", "1\n"),
        ("sandbox.pid", "١٢"),
        ("sandbox.pid", "9" * 5000),
        ("sandbox.started", ""),
        ("sandbox.started", "nan"),
        ("sandbox.expires", "inf"),
        ("sandbox.expires", "-1"),
        ("sandbox.expires", "9" * 400),
        ("sandbox.kind", "whatever"),
    ],
)
def test_a_malformed_label_means_no_owner(label: str, value: str) -> None:
    assert ContainerOwner.from_labels({**ContainerOwner.current().labels(expires_at=EXPIRES), label: value}) is None


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(ContainerOwner.current().labels(expires_at=0))), st.text(max_size=20)))
def test_reading_labels_never_fails(forged: dict[str, str]) -> None:
    owner = ContainerOwner.from_labels({**ContainerOwner.current().labels(expires_at=0), **forged})
    assert owner is None or owner.is_dead() in (True, False)


def test_every_engine_and_every_name_is_different() -> None:
    owner, other = ContainerOwner.current(), ContainerOwner.current()
    names = {owner.new_name() for _ in range(1000)}
    assert len(names) == 1000
    assert all(owner.gave_name(name) for name in names)
    assert not any(other.gave_name(name) for name in names)
    assert not owner.gave_name(f"{owner.new_name()}x")


def test_this_process_is_not_dead() -> None:
    assert not ContainerOwner.current().is_dead()


@pytest.mark.slow
def test_another_process_is_dead_once_it_ended() -> None:
    with engine("input()") as process:
        owner = labels_of(process)
        assert not owner.is_dead()
        process.kill()
        process.wait()
        assert owner.is_dead()


@pytest.mark.slow
def test_an_unreaped_process_is_dead() -> None:
    with engine("input()") as process:
        owner = labels_of(process)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_dead()


def test_a_process_with_a_reused_number_is_another() -> None:
    owner = ContainerOwner.current()
    assert replace(owner, started=str(int(owner.started) - 1)).is_dead()


def test_an_owner_from_before_a_reboot_is_dead() -> None:
    assert replace(ContainerOwner.current(), boot="4d1c1a5e-0000-4000-8000-000000000000").is_dead()


def test_owners_on_other_hosts_are_unknown() -> None:
    there = replace(ContainerOwner.current(), host=ELSEWHERE)
    for owner in (there, replace(there, boot="another"), replace(there, started="1")):
        assert not owner.is_of_this_host()
        assert not owner.is_dead()


def test_start_times_come_from_a_clock_that_cannot_be_set() -> None:
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert ContainerOwner.current().started == ticks
