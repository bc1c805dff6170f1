"""Engines that a module's attacks share, under the policy of a call that names none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Sandbox
from tests.escape.engines import Engine, engine_of_ours, engine_without_root


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Return an engine with real boxes, as the user of the tests."""
    with Sandbox() as engine:
        yield engine


@pytest.fixture(scope="module")
def ours() -> Iterator[Engine]:
    """The same, to be asked as `engine` is."""
    with engine_of_ours() as engine:
        yield engine


@pytest.fixture(scope="module")
def without_root(unprivileged_python: Path) -> Iterator[Engine]:
    """An engine of a user that owns nothing here."""
    with engine_without_root(unprivileged_python) as engine:
        yield engine


@pytest.fixture(params=["ours", "without_root"])
def engine(request: pytest.FixtureRequest, ours: Engine) -> Engine:
    """Each of the two in turn; both stay open for the whole module, in whatever order its tests run."""
    found: Engine = ours if request.param == "ours" else request.getfixturevalue("without_root")
    return found
