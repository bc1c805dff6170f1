"""The rules for every test: how long it may take, what it may leave behind, and what it can ask for."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.provision import ProvisionError
from tests.provision.absent import not_tested

pytest_plugins = (
    "tests.workers",
    "tests.leaks",
    "tests.second_runs",
    "tests.pace",
    "tests.packaging.builds",
    "tests.unprivileged",
    "tests.daemons",
)

# The machine may be busy: only pytest's own timeout judges how long a property takes.
settings.register_profile("sandbox", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# The run that decides about a change must not fail for an example that no earlier run tried.
settings.register_profile("repeatable", settings.get_profile("sandbox"), derandomize=True, database=None)
settings.load_profile("sandbox")


@pytest.fixture(scope="session", autouse=True)
def _artifacts_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the artifacts of the tests apart from this user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDBOX_ARTIFACTS", str(tmp_path_factory.mktemp("artifacts")))
        yield


# The last wrapper is the innermost: pytest's own must have begun when a test is skipped here, because they also end.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    try:
        if item.get_closest_marker("root") is not None and os.geteuid() != 0:
            not_tested("what needs root", remedy="run the tests as root")
        return (yield)
    except ProvisionError as error:
        not_tested("what a fixture provides", remedy=str(error))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None]:
    try:
        return (yield)
    except ProvisionError as error:
        not_tested("what the test provides", remedy=str(error))
