"""Fixtures that the tests of a module share: an engine, a package index, a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Sandbox
from tests.end_to_end.calls import is_at_rest, serves, wait_until
from tests.end_to_end.packages import machine_with
from tests.indexes import LocalIndex


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Open an engine with real boxes, under the policy of a call that names none."""
    with Sandbox() as engine:
        yield engine


@pytest.fixture(scope="module")
def index(wheels: Path) -> Iterator[LocalIndex]:
    """The machine's only index, for all tests of a module that has `wheels`; they do not harm it."""
    with LocalIndex(wheels) as index, machine_with(index.url):
        yield index


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a module's environments are kept."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def harmless(sandbox: Sandbox) -> Iterator[None]:
    """Check after a test that the engine serves the next call, and that nothing of the test's call is left running."""
    yield
    assert serves(sandbox)
    assert wait_until(is_at_rest), "something is left running in a box"
