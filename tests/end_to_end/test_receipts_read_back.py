"""A receipt tells the limits of the group that the call was in, as the kernel has them."""

from __future__ import annotations

import pytest

from sandbox import Sandbox
from tests.end_to_end.calls import TRIVIAL

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.mark.parametrize(("asked", "kept"), [(16 << 20, 16 << 20), (20_000_001, 19_996_672)], ids=["whole", "part"])
def test_the_memory_told_is_that_of_the_calls_group_in_whole_pages(asked: int, kept: int) -> None:
    with Sandbox() as engine:
        receipt = engine.run(TRIVIAL, {"a": 1, "b": 2}, limits={"memory": asked, "processes": 7}).receipt
    assert receipt is not None
    assert {name: receipt.limits[name].value for name in ("memory", "processes")} == {"memory": kept, "processes": 7}
    assert "7 processes" in receipt.layers["cgroup"].detail
    assert "64 MiB" not in receipt.layers["cgroup"].detail
