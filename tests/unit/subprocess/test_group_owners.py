"""Only proof makes an owner dead, because a process number means nothing in another pid namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sandbox.backends.ownership import GroupOwner, orphaned_groups
from tests.checkout import ROOT

_INSIDE: Final = ("unshare", "--pid", "--fork", "--mount-proc")
_LIVES: Final = "from sandbox.backends.ownership import GroupOwner; print(GroupOwner.current().name_for(1)); input()"
_JUDGES: Final = """
import sys
from pathlib import Path
from sandbox.backends.ownership import orphaned_groups
print([folder.name for folder in orphaned_groups(map(Path, sys.argv[1:]))])
"""


def is_proved_dead(name: str) -> bool:
    return bool([*orphaned_groups([Path(name)])])


@contextmanager
def living(*prefix: str) -> Iterator[str]:
    """Yield the name of a group whose owner lives for the length of the block."""
    command = [*prefix, sys.executable, "-c", _LIVES]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("\n")


@pytest.mark.slow
def test_a_living_owner_in_our_namespace_is_not_dead_and_a_gone_one_is() -> None:
    with living() as name:
        assert not is_proved_dead(name)
    assert is_proved_dead(name)


def test_a_reused_number_proves_its_owner_dead() -> None:
    assert is_proved_dead(replace(GroupOwner.current(), started="1").name_for(1))
    assert not is_proved_dead(GroupOwner.current().name_for(1))


@pytest.mark.root
@pytest.mark.slow
def test_an_owner_in_an_empty_pid_namespace_is_dead() -> None:
    with living(*_INSIDE) as name:
        owner = GroupOwner.of(name)
        assert owner is not None
        assert owner.namespace != GroupOwner.current().namespace
        assert not is_proved_dead(name)
        assert not is_proved_dead(replace(owner, pid=owner.pid + 7).name_for(1))
    assert is_proved_dead(name) == (GroupOwner.current().namespace == str(0xEFFFFFFC))


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("inside", [_INSIDE, _INSIDE[:-1]], ids=["with its own /proc", "with the /proc of another"])
def test_no_owner_outside_a_pid_namespace_is_proved_dead(inside: tuple[str, ...]) -> None:
    names = [GroupOwner.current().name_for(1), replace(GroupOwner.current(), pid=999_999_999).name_for(1)]
    judged = subprocess.run(
        [*inside, sys.executable, "-c", _JUDGES, *names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert judged.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name", ["sandbox-1-1-7f711745d010", "sandbox-1-1", "sandbox-tests-docker-1", "sandbox-1-1-1-x", "sandbox-01-1-1-a"]
)
def test_an_owner_with_another_form_of_name_is_never_proved_dead(name: str) -> None:
    assert GroupOwner.of(name) is None
    assert not is_proved_dead(name)


def test_a_name_identifies_its_owner() -> None:
    owner = GroupOwner.current()
    assert GroupOwner.of(owner.name_for(id(owner))) == owner
    assert owner.pid == os.getpid()
