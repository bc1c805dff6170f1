"""What holds for every test: how long it may take, what it may leave behind, and what it can ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.provision.absent import not_tested

pytest_plugins = (
    "tests.workers",
    "tests.leaks",
    "tests.pace",
    "tests.packaging.builds",
    "tests.unprivileged",
    "tests.daemons",
)

# The machine may be busy: only pytest's own timeout judges how long a property takes.
settings.register_profile("sandbox", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("sandbox")


@pytest.fixture(scope="session", autouse=True)
def _artifacts_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests leave is not kept where this user's own artifacts are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDBOX_ARTIFACTS", str(tmp_path_factory.mktemp("artifacts")))
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        not_tested(item.name, remedy="run the tests as root")
