"""What holds for every test: how long it may take, what it may leave behind, and what it can ask for."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.provision.absent import not_tested

pytest_plugins = ("tests.leaks", "tests.pace", "tests.packaging.builds", "tests.unprivileged", "tests.daemons")

# The machine may be busy: only pytest's own timeout judges how long a property takes.
settings.register_profile("sandbox", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("sandbox")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        not_tested(item.name, remedy="run the tests as root")
