"""An engine that a module's attacks share, as whoever runs the tests, under the policy of a call that names none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One engine with real boxes."""
    with Sandbox() as engine:
        yield engine
