"""The reference pages say what the code says."""

from __future__ import annotations

import pytest

from tests.docs.pages import REFERENCE
from tests.docs.reference import reference_pages


@pytest.mark.parametrize("page", reference_pages())
def test_a_reference_page_is_current(page: str) -> None:
    written = (REFERENCE / page).read_text()
    is_current = written == reference_pages()[page]
    assert is_current, f"docs/reference/{page} is out of date: run `python -m tests.docs.reference`"


def test_the_reference_has_no_other_pages() -> None:
    assert {page.name for page in REFERENCE.iterdir()} == {*reference_pages()}
