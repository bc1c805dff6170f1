"""The strict form of any healthy schema is sound and stable, and accepts exactly the strict-filled arguments."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.tools.schemas import Level, health, strict_form, validator, without_filled_nulls
from tests.unit.tools.schemas.shapes import PARAMETERS, arguments

pytestmark = pytest.mark.slow


def _object_nodes(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for item in node for found in _object_nodes(item)]
    if not isinstance(node, dict):
        return []
    inner = [found for value in node.values() for found in _object_nodes(value)]
    is_object = isinstance(node.get("properties"), dict) and node.get("type") in ("object", ["object", "null"])
    return [node, *inner] if is_object else inner


@given(PARAMETERS)
def test_a_strict_form_is_compliant_sound_and_its_own_strict_form(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    strict = strict_form(schema)
    assert schema == before
    assert strict["strict"] is True
    assert health(strict).level is Level.STRICT_COMPLIANT
    assert strict_form(strict) == strict
    assert validator(strict).problems({}) != ()


@given(PARAMETERS)
def test_every_object_of_a_strict_form_requires_exactly_its_properties(schema: dict[str, Any]) -> None:
    for node in _object_nodes(strict_form(schema)):
        assert node["required"] == list(node["properties"])
        assert node["additionalProperties"] is False


def _filled(value: Any, strict: Any, strict_root: dict[str, Any]) -> Any:
    """Return the value with null for each missing property; for a union, follow the first member that then fits."""
    if "$ref" in strict:
        strict = strict_root["$defs"]["Tree"]
    if "anyOf" in strict:
        candidates = [_filled(value, member, strict_root) for member in strict["anyOf"]]
        fitting = [
            candidate
            for candidate, member in zip(candidates, strict["anyOf"], strict=True)
            if validator({**member, "$defs": strict_root["$defs"]}).is_valid(candidate)
        ]
        return fitting[0] if fitting else value
    if isinstance(value, dict) and "properties" in strict:
        listed = strict["properties"]
        given_members = {
            name: _filled(member, listed[name], strict_root) if name in listed else member
            for name, member in value.items()
        }
        return {**dict.fromkeys(listed), **given_members}
    if isinstance(value, list) and "items" in strict:
        return [_filled(item, strict["items"], strict_root) for item in value]
    return value


@given(st.data())
def test_a_strict_form_accepts_the_strict_filled_arguments_exactly(data: st.DataObject) -> None:
    schema = data.draw(PARAMETERS)
    given_arguments = data.draw(arguments(schema))
    strict = strict_form(schema)
    filled = _filled(given_arguments, strict, strict)
    fits = validator(schema).is_valid(given_arguments)
    if fits:
        assert validator(strict).problems(filled) == ()
    if validator(strict).is_valid(filled):
        assert validator(schema).problems(without_filled_nulls(filled, schema)) == ()


@given(st.data())
def test_arguments_that_lack_an_optional_property_are_not_strict(data: st.DataObject) -> None:
    schema = data.draw(PARAMETERS)
    given_arguments = data.draw(arguments(schema))
    missing = schema["properties"].keys() - given_arguments.keys()
    assert not (missing and validator(strict_form(schema)).is_valid(given_arguments))


@given(st.data())
def test_converted_strict_arguments_have_no_null_that_only_fills(data: st.DataObject) -> None:
    schema = data.draw(PARAMETERS)
    given_arguments = data.draw(arguments(schema))
    filled = {**dict.fromkeys(schema["properties"]), **given_arguments}
    restored = without_filled_nulls(filled, schema)
    assert all(value is not None or name in schema["required"] for name, value in restored.items())
    assert restored.keys() == {
        name for name, value in filled.items() if value is not None or name in schema["required"]
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "value", "next"]), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    PARAMETERS,
)
def test_arguments_of_any_shape_are_converted(value: Any, schema: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    without_filled_nulls({"a": value, "b": value}, schema)
    assert value == before
