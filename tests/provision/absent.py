"""What this machine has not got, said in the one way that cannot be overlooked."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tests.provision import is_in_ci


def not_tested(what: str, *, remedy: str) -> NoReturn:
    """Fail in CI, where everything is to be had; elsewhere name what was not tested and go on."""
    if is_in_ci():
        pytest.fail(f"{what} cannot be tested here: {remedy}", pytrace=False)
    pytest.skip(f"NOT TESTED HERE: {what}; {remedy}")
