"""Who owns a container, read from its labels, and what proves that it is dead."""

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

from sandbox.backends.container.ownership import Owner, expires_at
from tests.checkout import ROOT

EXPIRES: Final = 1_800_000_000
TELL: Final = """
import json
from sandbox.backends.container.ownership import Owner
print(json.dumps(Owner.current().labels(expires_at=0)), flush=True)
"""
ELSEWHERE: Final = "0" * 32


def engine(then: str = "") -> subprocess.Popen[str]:
    """A process that tells the labels of its own engine, and then does this."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{TELL}\n{then}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def told_by(process: subprocess.Popen[str]) -> Owner:
    assert process.stdout is not None
    owner = Owner.from_labels(json.loads(process.stdout.readline()))
    assert owner is not None
    return owner


def test_the_labels_say_who_it_was() -> None:
    owner = Owner.current()
    labels = owner.labels(expires_at=EXPIRES + 0.7)
    assert Owner.from_labels(labels) == owner
    assert expires_at(labels) == EXPIRES
    assert labels["sandbox.owner"] == owner.engine
    assert labels["sandbox.kind"] == "box"


def test_labels_of_others_are_in_nobodys_way() -> None:
    owner = Owner.current()
    assert Owner.from_labels({**owner.labels(expires_at=EXPIRES), "maintainer": "x", "sandbox.key": "y"}) == owner


@pytest.mark.parametrize("label", sorted(Owner.current().labels(expires_at=EXPIRES)))
def test_where_one_label_is_missing_it_is_nobody(label: str) -> None:
    labels = Owner.current().labels(expires_at=EXPIRES)
    del labels[label]
    assert Owner.from_labels(labels) is None


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
def test_where_one_label_is_malformed_it_is_nobody(label: str, value: str) -> None:
    assert Owner.from_labels({**Owner.current().labels(expires_at=EXPIRES), label: value}) is None


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(Owner.current().labels(expires_at=0))), st.text(max_size=20)))
def test_reading_labels_never_fails(forged: dict[str, str]) -> None:
    owner = Owner.from_labels({**Owner.current().labels(expires_at=0), **forged})
    assert owner is None or owner.is_dead() in (True, False)


def test_every_engine_is_another_and_every_name() -> None:
    owner, other = Owner.current(), Owner.current()
    names = {owner.new_name() for _ in range(1000)}
    assert len(names) == 1000
    assert all(owner.gave_name(name) for name in names)
    assert not any(other.gave_name(name) for name in names)
    assert not owner.gave_name(f"{owner.new_name()}x")


def test_this_process_is_not_dead() -> None:
    assert not Owner.current().is_dead()


@pytest.mark.slow
def test_another_process_is_dead_when_it_ended_and_not_before() -> None:
    with engine("input()") as process:
        owner = told_by(process)
        assert not owner.is_dead()
        process.kill()
        process.wait()
        assert owner.is_dead()


@pytest.mark.slow
def test_what_nobody_has_buried_is_dead() -> None:
    with engine("input()") as process:
        owner = told_by(process)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_dead()


def test_who_got_the_number_of_a_dead_process_is_somebody_else() -> None:
    owner = Owner.current()
    assert replace(owner, started=str(int(owner.started) - 1)).is_dead()


def test_what_an_earlier_run_of_the_host_began_is_dead() -> None:
    assert replace(Owner.current(), boot="4d1c1a5e-0000-4000-8000-000000000000").is_dead()


def test_nothing_is_known_of_other_hosts() -> None:
    there = replace(Owner.current(), host=ELSEWHERE)
    for owner in (there, replace(there, boot="another"), replace(there, started="1")):
        assert not owner.is_of_this_host()
        assert not owner.is_dead()


def test_when_a_process_started_is_told_by_a_clock_that_nobody_sets() -> None:
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert Owner.current().started == ticks
