"""The writable places of a container for one call share the policy's disk and inodes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.backends.container.container_config import Container, create_body
from sandbox.policy import load
from sandbox.policy.model import MIN_INODES

PAGE = 4096


def _places(runtime: str, *, disk: int, inodes: int) -> dict[str, tuple[int, int]]:
    policy = load("strict")
    limits = policy.limits.model_copy(update={"disk": disk, "inodes": inodes})
    container = Container("image", (), user=1, labels={}, seccomp="", runtime=runtime)
    host: dict[str, dict[str, str]] = create_body(container, policy.model_copy(update={"limits": limits}))["HostConfig"]  # type: ignore[assignment]
    found = {}
    for place, options in host["Tmpfs"].items():
        size, count = re.findall(r"(?:size|nr_inodes)=(\d+)", options)
        found[place] = int(size), int(count)
    return found


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
@given(disk=st.integers(min_value=4 * PAGE, max_value=1 << 40), inodes=st.integers(MIN_INODES, 1 << 20))
def test_all_places_together_have_the_limits_of_the_policy(runtime: str, disk: int, inodes: int) -> None:
    places = _places(runtime, disk=disk, inodes=inodes)
    assert {"/work", "/dev/shm"} <= {*places}
    assert disk - 2 * PAGE <= sum(size for size, _ in places.values()) <= disk
    assert inodes - 1 <= sum(count for _, count in places.values()) <= inodes
    assert all(size >= PAGE and count > 1 for size, count in places.values())


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
@given(disk=st.integers(min_value=1, max_value=4 * PAGE))
def test_every_place_has_a_limit(runtime: str, disk: int) -> None:
    places = _places(runtime, disk=disk, inodes=MIN_INODES)
    assert all(size and count for size, count in places.values())
