"""Sizes, durations and counts: accepted forms, refused forms, and exact writing."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.policy.quantities import (
    GIB,
    KIB,
    MAX_BYTES,
    MAX_COUNT,
    MAX_SECONDS,
    MIB,
    format_bytes,
    format_seconds,
    parse_bytes,
    parse_count,
    parse_count_or_zero,
    parse_seconds,
    parse_seconds_or_zero,
)

ODD = [
    None,
    True,
    False,
    [],
    {},
    b"1",
    object(),
    "",
    " ",
    "many",
    "-1",
    "+1",
    "1e3",
    "0x10",
    "1_000",
    "\u0661",
    "\0",
    "9" * 5000,
]


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (1, 1),
        (MAX_BYTES, MAX_BYTES),
        ("1", 1),
        ("64KiB", 64 * KIB),
        ("512MiB", 512 * MIB),
        ("512 mib", 512 * MIB),
        (" 1GiB ", GIB),
        ("1.5GiB", 3 * GIB // 2),
        ("1TiB", 1024 * GIB),
        ("10MB", 10_000_000),
        ("10kB", 10_000),
        ("10KB", 10_000),
        ("2GB", 2_000_000_000),
        ("7B", 7),
    ],
)
def test_a_size_is_read_in_binary_and_decimal_units(written: object, size: int) -> None:
    assert parse_bytes(written) == size


@pytest.mark.parametrize(
    "written",
    [
        *ODD,
        0,
        -1,
        1.5,
        512.0,
        float("inf"),
        float("nan"),
        10**400,
        MAX_BYTES + 1,
        "0",
        "0B",
        "0.5B",
        "512M",
        "1G",
        "1 XiB",
    ],
)
def test_an_invalid_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_bytes(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (30, 30.0),
        (0.25, 0.25),
        ("30", 30.0),
        ("30s", 30.0),
        ("2m", 120.0),
        ("2 min", 120.0),
        ("500ms", 0.5),
        ("1h", 3600.0),
        ("1.5H", 5400.0),
        (MAX_SECONDS, float(MAX_SECONDS)),
    ],
)
def test_a_duration_is_read_in_every_unit(written: object, seconds: float) -> None:
    parsed = parse_seconds(written)
    assert (parsed, type(parsed)) == (seconds, float)


@pytest.mark.parametrize(
    "written",
    [*ODD, 0, -1, 0.0, -0.0, float("inf"), float("-inf"), float("nan"), 10**400, MAX_SECONDS + 1, "0s", "1 fortnight"],
)
def test_an_invalid_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_seconds(written)


@pytest.mark.parametrize(("written", "count"), [(1, 1), ("64", 64), (MAX_COUNT, MAX_COUNT)])
def test_a_count_is_read_from_a_number_and_from_digits(written: object, count: int) -> None:
    assert parse_count(written) == parse_count_or_zero(written) == count


@pytest.mark.parametrize("written", [*ODD, -1, 1.0, 1.5, MAX_COUNT + 1, 10**400])
def test_an_invalid_count_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_count(written)
    with pytest.raises(ValueError, match="must"):
        parse_count_or_zero(written)


def test_zero_is_a_count_only_where_a_feature_can_be_disabled() -> None:
    assert parse_count_or_zero(0) == 0
    with pytest.raises(ValueError, match="unlimited"):
        parse_count(0)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1536, "1536 B"),
        (512 * MIB, "512 MiB"),
        (GIB, "1 GiB"),
        (10**7, "10 MB"),
        (10**10, "10 GB"),
    ],
)
def test_a_size_is_written_in_the_unit_with_the_smallest_number(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.5, "500 ms"),
        (1.5, "1.5 s"),
        (30, "30 s"),
        (60, "60 s"),
        (100.5, "100.5 s"),
        (120, "2 min"),
        (3600, "60 min"),
        (7200, "2 h"),
        (86400, "24 h"),
        (7 * 86400, "7 d"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_divides_it(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("written", "seconds"), [(0, 0.0), ("0", 0.0), ("0s", 0.0), (-0.0, 0.0), ("7d", 604800.0), (1, 1.0)]
)
def test_a_wait_may_be_absent(written: object, seconds: float) -> None:
    assert parse_seconds_or_zero(written) == seconds
    assert str(parse_seconds_or_zero(written)) == str(seconds)


@pytest.mark.parametrize("written", [*ODD, -1, -0.001, float("nan"), float("inf"), -(10**400), "366d"])
def test_an_invalid_wait_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_seconds_or_zero(written)


@given(st.integers(min_value=1, max_value=MAX_BYTES))
def test_a_written_size_reads_back_as_itself(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


@given(st.floats(min_value=1e-9, max_value=MAX_SECONDS))
def test_a_written_duration_reads_back_as_itself(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == seconds


@pytest.mark.slow
@given(st.text() | st.integers() | st.floats() | st.binary() | st.none())
def test_anything_is_either_a_quantity_or_a_value_error(written: object) -> None:
    for parse in (parse_bytes, parse_seconds, parse_count):
        with suppress(ValueError):
            assert parse(written) > 0
