"""A value is compared with the return schema like a standard validator does, for the keywords used here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from call import returns

TREE: Final = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
SCHEMAS: Final[list[Any]] = [
    True,
    {},
    {"type": "integer"},
    {"type": "number", "minimum": 0, "exclusiveMaximum": 3},
    {"type": ["string", "null"]},
    {"type": "string", "minLength": 1, "maxLength": 2},
    {"enum": [1, "a", None, True]},
    {"const": 1},
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    {"allOf": [{"type": "object"}, {"required": ["x"]}]},
    TREE,
]


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """A null counts as a missing member, unlike in the standard."""
    return {name: member for name, member in value.items() if member is not None}


VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 4) | st.sampled_from([0.5, 1.0, "", "a", "b", "abc"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "below", "z"]), inner, max_size=3).map(_without_nulls)
    ),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def frames() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.slow
@given(VALUES, st.sampled_from(SCHEMAS))
def test_the_same_fits_as_by_the_standard(value: Any, schema: Any) -> None:
    assert bool(returns.find_misfits(value, schema)) is not jsonschema_rs.is_valid(schema, value)


def test_a_misfit_is_reported_with_its_path() -> None:
    found = returns.find_misfits({"x": 1, "below": [{"x": "1"}, {"below": []}, {"x": 1, "z": 2}]}, TREE)
    assert found == [
        "below[0].x: is string, not integer",
        "below[1].x: is missing",
        "below[2].z: is not expected",
    ]


def test_only_some_misfits_are_reported_and_each_is_short() -> None:
    found = returns.find_misfits(["x"] * 1000, {"type": "array", "items": {"enum": ["y" * 500] * 100}})
    assert len(found) == 3
    assert max(map(len, found)) <= 300


def test_dangling_and_circular_references_fit() -> None:
    for schema in ({"$ref": "#/no/where"}, {"$ref": "#"}, {"$ref": "https://example.test/schema"}):
        assert returns.find_misfits({"x": 1}, schema) == []


def test_a_null_for_an_optional_member_fits() -> None:
    assert returns.find_misfits({"x": 1, "below": None}, TREE) == []
    assert returns.find_misfits({"x": None}, TREE) == ["x: is null, not integer"]


@pytest.mark.slow
def test_a_value_too_large_to_compare_fits() -> None:
    schema: dict[str, Any] = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}] * 3}
    value: Any = "leaf"
    for _ in range(100):
        value = [value]
    assert returns.find_misfits(value, schema) == []
    assert returns.find_misfits([1] * 300_000 + ["x"], {"type": "array", "items": {"type": "integer"}}) == []


def contract(contract_sent: dict[str, Any] | None, value: Any, *, ok: bool | None = None) -> returns.ReturnContract:
    held = returns.ReturnContract(contract_sent, ok=ok)
    if held.check is not None:
        held.check(value)
    return held


def test_only_a_strict_contract_is_broken() -> None:
    strict, mild = ({"schema": {"type": "integer"}, "is_strict": each} for each in (True, False))
    assert contract(strict, "x").is_broken
    assert not contract(strict, 1).is_broken
    assert not contract(mild, "x").is_broken
    assert not contract(None, "x").is_broken
    assert not contract(strict, "x", ok=False).is_broken


def test_a_reported_failure_is_not_compared() -> None:
    strict = {"schema": {"type": "integer"}, "is_strict": True}
    assert not contract(strict, {"success": False, "x": 1}).is_broken
    assert contract(strict, {"error": "no"}).is_broken
    assert contract(strict, {"success": 0}).is_broken


def test_bytes_fit_a_string_schema() -> None:
    assert (
        returns.find_misfits({"$type": "bytes", "base64": "", "bytes": 0}, {"type": "string", "format": "binary"}) == []
    )
