"""Schemas for property tests, in the form that readers of sources write, and arguments that fit or nearly fit them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "type", "$ref"])
SCALARS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number", "minimum": 0},
    {"type": "boolean"},
    {"type": ["string", "null"]},
    {"type": ["null", "integer", "boolean"]},
    {"type": "string", "enum": ["x", "y"]},
    {"enum": ["x", 1, None]},
    {"enum": ["x", 2]},
    {"const": "x"},
    {"$ref": "#/$defs/Tree"},
    {"$ref": "#/$defs/Tree", "description": "a tree"},
]
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Tree"}},
    "required": ["value"],
    "additionalProperties": False,
}

_KEYWORDS = (
    *("type", "properties", "required", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"),
    *("$ref", "$defs", "enum", "const", "default", "format", "pattern", "minItems", "not", "description", "a", "b"),
)
_WORDS = st.sampled_from(["object", "array", "string", "null", "#", "#/$defs/a", "#/properties/a", "#/$defs/b", "a"])


def _documents(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = inner | _WORDS
    return st.lists(members, max_size=4) | st.dictionaries(st.sampled_from(_KEYWORDS), members, max_size=5)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), _documents, max_leaves=30
)
_SCHEMAS = st.recursive(
    st.sampled_from(["string", "integer", "null", "object"]).map(lambda name: {"type": name})
    | st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#/$defs/b"]).map(lambda place: {"$ref": place}),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=2)})
        | st.fixed_dictionaries({"type": st.just("array"), "prefixItems": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=5,
)
TANGLED = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.fixed_dictionaries({"a": _SCHEMAS, "b": _SCHEMAS}),
        "$defs": st.fixed_dictionaries({"a": _SCHEMAS, "b": _SCHEMAS}),
    }
)
"""Parameters whose references lead anywhere in them, also round in circles."""


@st.composite
def objects(draw: st.DrawFn, members: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Build a closed object schema with at least one property."""
    properties = draw(st.dictionaries(NAMES, members, min_size=1, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _unions(members: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(members, min_size=1, max_size=3).map(lambda listed: {"anyOf": listed})


def _arrays(members: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return members.map(lambda member: {"type": "array", "items": member})


NODES = st.recursive(
    st.sampled_from(SCALARS), lambda inner: objects(inner) | _unions(inner) | _arrays(inner), max_leaves=6
)
PARAMETERS = objects(NODES).map(lambda schema: {**schema, "$defs": {"Tree": TREE}})


@st.composite
def values(draw: st.DrawFn, node: dict[str, Any]) -> Any:
    """Build a value that may fit the node."""
    if "$ref" in node:
        node = TREE
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from([None, 1, "x", [], {}]))
    if "anyOf" in node:
        return draw(values(draw(st.sampled_from(node["anyOf"]))))
    if "enum" in node or "const" in node:
        return draw(st.sampled_from(node.get("enum") or [node["const"]]))
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return draw(_of_type(draw(st.sampled_from(types)), node))


def _of_type(name: str, node: dict[str, Any]) -> st.SearchStrategy[Any]:
    if name == "object":
        return arguments(node)
    if name == "array":
        return st.lists(values(node["items"]), max_size=2)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "string": st.sampled_from(["x", "y", ""]),
        "integer": st.integers(-2, 2),
        "number": st.sampled_from([-1, 0.5, 2]),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return plain[name]


@st.composite
def arguments(draw: st.DrawFn, node: dict[str, Any]) -> dict[str, Any]:
    """Build members of an object, mostly all required ones and some optional ones."""
    given: dict[str, Any] = {}
    for name, member in node["properties"].items():
        if draw(st.integers(0, 9)) < (9 if name in node["required"] else 3):
            given[name] = draw(values(member))
    return given
