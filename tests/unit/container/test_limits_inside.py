"""The limit of processes holds in a call's own namespace, and otherwise in its container's control group."""

from __future__ import annotations

import pytest

from sandbox.backends.container.container_config import are_counted_inside
from sandbox.policy import load


@pytest.mark.parametrize(
    ("policy", "runtime", "kernel", "is_inside"),
    [
        ("default", "runc", "5.14.0", True),
        ("default", "crun", "6.18.44-fc-v657", True),
        ("default", "runc", "5.4.0-190-generic", False),
        ("default", "runc", "4.18.0-553.el8", False),
        ("default", "runc", "", False),
        ("strict", "runc", "6.1.0", False),
        ("strict", "runsc", "6.1.0", False),
    ],
)
def test_a_call_with_its_own_namespace_is_counted_inside(
    policy: str,
    runtime: str,
    kernel: str,
    is_inside: bool,
) -> None:
    assert are_counted_inside(load(policy), runtime=runtime, kernel=kernel) == is_inside
