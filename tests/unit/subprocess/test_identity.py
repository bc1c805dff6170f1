"""The rights of a caller, not its name, decide whether a box gets a user of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Final

import pytest

from sandbox.backends.subprocess.identity import EngineIdentity, box_user, current_identity, user_inside

ROOT: Final = EngineIdentity(0, 0, (1 << 41) - 1, range(30_000, 60_000), owns_the_kernel=True)
_BITS: Final = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7}


@pytest.mark.parametrize("is_plain", [False, True])
def test_root_with_all_rights_gives_each_box_a_user_of_its_own(is_plain: bool) -> None:
    users = {box_user(ROOT, is_plain=is_plain) for _ in range(20)}
    assert len(users) > 10
    assert all(user == group and user in ROOT.free_ids for user, group in users)


@pytest.mark.parametrize("missing", _BITS)
@pytest.mark.parametrize("is_plain", [False, True])
def test_root_without_a_needed_right_shares_its_user_with_a_reason(missing: str, is_plain: bool) -> None:
    caller = replace(ROOT, capabilities=ROOT.capabilities & ~(1 << _BITS[missing]))
    assert box_user(caller, is_plain=is_plain) == (0, 0)
    assert caller.cannot_give_users(is_plain=is_plain) == f"the engine is root without {missing}"


def test_mounting_is_a_right_that_only_isolation_needs() -> None:
    caller = replace(ROOT, capabilities=ROOT.capabilities & ~(1 << 21))
    assert box_user(caller, is_plain=False) == (0, 0)
    assert box_user(caller, is_plain=True) != (0, 0)


def test_without_ids_or_root_the_user_is_shared() -> None:
    assert box_user(replace(ROOT, free_ids=range(0)), is_plain=False) == (0, 0)
    assert box_user(replace(ROOT, uid=1001, gid=1002), is_plain=False) == (1001, 1002)


def test_a_box_that_shares_roots_user_has_another_number_inside() -> None:
    assert user_inside((0, 0), is_plain=False)[0] != 0
    assert user_inside((0, 0), is_plain=True) == (0, 0)
    assert user_inside((1001, 1002), is_plain=False) == (1001, 1002)


@pytest.mark.root
def test_root_here_has_all_rights_that_it_needs() -> None:
    assert current_identity().cannot_give_users(is_plain=False) is None


def test_a_shortage_of_files_is_not_reported_as_missing_rights() -> None:
    script = "import resource\nfrom sandbox.backends.subprocess.identity import current_identity\n"
    script += "from sandbox.errors import BackendUnavailable, HostExhausted\n"
    script += "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
    script += "try:\n    print(current_identity())\n"
    script += "except BackendUnavailable as error:\n    print(isinstance(error, HostExhausted), error)\n"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.startswith("True ")
    assert "Too many open files" in answer.stdout
    assert "ulimit -n" in answer.stdout
