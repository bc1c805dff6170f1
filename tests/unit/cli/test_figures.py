"""Measured figures are rounded for readers, limits are exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cli.terminal import limit_figure, rounded_age, rounded_bytes, rounded_seconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0.0 ms"), (0.0063, "6.3 ms"), (0.12, "120 ms"), (0.9999, "1.00 s"), (1.012, "1.01 s"), (125, "2 min 5 s")],
)
def test_seconds_have_a_suitable_unit(seconds: float, shown: str) -> None:
    assert rounded_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (512, "512 B"), (1024, "1 KiB"), (4404019, "4.2 MiB"), (541065216, "516 MiB"), (2**40, "1 TiB")],
)
def test_sizes_have_a_suitable_unit(size: int, shown: str) -> None:
    assert rounded_bytes(size) == shown


@given(st.floats(0, 2**62))
def test_a_size_is_never_wide(size: float) -> None:
    assert len(rounded_bytes(size)) <= 12


@pytest.mark.parametrize(
    ("name", "value", "exact", "shown"),
    [
        ("memory", 536870912, True, "512 MiB"),
        ("memory", 541065217, True, "541065217 B"),
        ("memory", 541065217, False, "516 MiB"),
        ("wall", 0.3, True, "300 ms"),
        ("wall", 1.0124, False, "1.01 s"),
        ("processes", 64, True, "64"),
        ("processes", 64.0, True, "64"),
        ("unheard_of", 1, True, "1"),
        (None, "text", True, "text"),
        ("memory", None, True, "None"),
    ],
)
def test_a_limit_is_shown_in_its_unit(name: str | None, value: object, exact: bool, shown: str) -> None:
    assert limit_figure(name, value, exact=exact) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "just now"), (59, "just now"), (60, "1 min ago"), (7199, "1 h ago"), (86400, "1 d ago"), (1e8, "1157 d ago")],
)
def test_an_age_has_a_suitable_unit(seconds: float, shown: str) -> None:
    assert rounded_age(seconds) == shown
