"""Report a gap of this machine so that no reader overlooks it."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tests.provision.debian import may_install


def not_tested(what: str, *, remedy: str) -> NoReturn:
    """Fail where everything can be installed; elsewhere skip the test with the reason."""
    if may_install():
        pytest.fail(f"{what} cannot be tested here: {remedy}", pytrace=False)
    pytest.skip(f"NOT TESTED HERE: {what}; {remedy}")
