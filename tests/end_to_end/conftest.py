"""An engine that a module's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Sandbox
from tests.end_to_end.calls import is_at_rest, serves, wait_until


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One engine with real boxes, under the policy of a call that names none."""
    with Sandbox() as engine:
        yield engine


@pytest.fixture
def harmless(sandbox: Sandbox) -> Iterator[None]:
    """Whatever the test's call does, the engine serves the next one, and nothing of it is left running."""
    yield
    assert serves(sandbox)
    assert wait_until(is_at_rest), "something is left running in a box"
