"""Capabilities as a child gives them away and as the kernel then reports them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.runners.isolated_program import A_USER, USERS, ask, folder_of

NONE: Final = {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0}

DROP: Final = """
before = capability_sets()
capabilities.drop_all()
answer([before, capability_sets()])
"""

# CAP_NET_BIND_SERVICE (10) becomes inheritable, in addition to all permitted ones, and then ambient.
DROP_WITH_AN_AMBIENT_ONE: Final = """
low, high = (capability_sets()["CapPrm"] >> shift & 0xFFFFFFFF for shift in (0, 32))
calls.syscall("capset", struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", low, low, 1 << 10, high, high, 0))
calls.prctl(47, 2, 10)
before = capability_sets()
capabilities.drop_all()
answer([before, capability_sets()])
"""

DROP_IN_A_NEW_USER_NAMESPACE: Final = """
calls.syscall("unshare", 0x10000000)
before = capability_sets()
capabilities.drop_all()
answer([before, capability_sets()])
"""

# Root's powers could come back by an execve, or by a change of user id.
COME_BACK: Final = """
if given["walls"]:
    capabilities.forbid_new_privileges()
    capabilities.drop_all()
by_user_id = error_of(lambda: os.setresuid(1, 1, 1))
text = subprocess.run(["/bin/cat", "/proc/self/status"], stdout=subprocess.PIPE, check=True).stdout.decode()
by_execve = {line[:6]: int(line.split()[1], 16) for line in text.splitlines() if line.startswith("Cap")}
answer([by_user_id, by_execve])
"""


@pytest.mark.root
def test_root_keeps_nothing() -> None:
    before, after = ask(DROP)
    assert before["CapEff"] != 0
    assert before["CapBnd"] != 0
    assert after == NONE


@pytest.mark.root
def test_ambient_and_inheritable_capabilities_go_too() -> None:
    before, after = ask(DROP_WITH_AN_AMBIENT_ONE)
    assert before["CapInh"] == before["CapAmb"] == 1 << 10
    assert after == NONE


def test_a_plain_user_keeps_nothing_but_the_bounding_set() -> None:
    before, after = ask(DROP, user=USERS[-1])
    assert after == {**NONE, "CapBnd": before["CapBnd"]}


@pytest.mark.parametrize("user", USERS)
def test_the_root_of_a_new_user_namespace_keeps_nothing(user: int) -> None:
    before, after = ask(DROP_IN_A_NEW_USER_NAMESPACE, user=user)
    assert before["CapEff"] != 0
    assert after == NONE


@pytest.mark.root
def test_dropped_capabilities_do_not_come_back_to_root() -> None:
    assert ask(COME_BACK, walls=True) == ["EPERM", NONE]
    changed, at_execve = ask(COME_BACK, walls=False)
    assert (changed, at_execve["CapPrm"]) == ("done", 0)


@pytest.mark.root
def test_an_execve_of_root_gives_no_capability_back() -> None:
    execve = COME_BACK.replace("os.setresuid(1, 1, 1)", "None")
    assert ask(execve, walls=True)[1] == NONE
    assert ask(execve, walls=False)[1]["CapEff"] != 0


@pytest.mark.root
def test_the_rules_for_root_are_locked() -> None:
    """PR_GET_SECUREBITS is 27; the lock of each bit is the next higher bit."""
    assert ask("capabilities.drop_all()\nanswer(calls.prctl(27))") == 0b11101111


@pytest.mark.parametrize("user", USERS)
def test_new_privileges_are_forbidden_when_asked(user: int) -> None:
    program = """
before = capabilities.new_privileges_forbidden()
capabilities.forbid_new_privileges()
answer([before, capabilities.new_privileges_forbidden(), status_fields("NoNewPrivs")["NoNewPrivs"]])
"""
    assert ask(program, user=user) == [False, True, "1"]


@pytest.mark.root
@pytest.mark.parametrize("user", [0, A_USER])
def test_a_setuid_program_gives_nothing_once_new_privileges_are_forbidden(user: int) -> None:
    """A setuid copy of a program shows by its effective rights whether it became root."""
    program = """
if given["walls"]:
    capabilities.forbid_new_privileges()
    capabilities.drop_all()
text = subprocess.run([given["cat"], "/proc/self/status"], stdout=subprocess.PIPE, check=True).stdout.decode()
answer([int(line.split()[1], 16) for line in text.splitlines() if line.startswith("CapEff")][0])
"""
    with setuid_cat() as cat:
        assert ask(program, user=user, walls=True, cat=cat) == 0
        assert ask(program, user=user, walls=False, cat=cat) != 0


@contextmanager
def setuid_cat() -> Iterator[str]:
    with folder_of(0) as folder:
        folder.chmod(0o755)
        copy = folder / "cat"
        shutil.copy("/bin/cat", copy)
        copy.chmod(0o4755)
        yield str(copy)
