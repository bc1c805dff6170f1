"""Explicit schemas win over derived ones, and derived schemas agree with pydantic."""

from __future__ import annotations

import inspect
import json
import sys
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, create_model

from sandbox import Sandbox, SourceError, SpecError
from sandbox.tools import bind, read_tool
from sandbox.tools.check import check_source
from sandbox.tools.schemas import validator
from sandbox.tools.tool_schema import tool_schema

SOURCE: Final = '''
def f(a: int) -> None:
    """Do it.

    Args:
        a: The a.
    """
'''


class Arguments(BaseModel):
    title: str = Field("x", description="Which city.")


GIVEN: Final = {"name": "other", "description": "Other.", "parameters": {"type": "object", "properties": {}}}


def test_an_explicit_schema_wins_over_everything() -> None:
    assert tool_schema("not python (", given=GIVEN, arguments=Arguments) == GIVEN


def test_explicit_arguments_win_over_the_signature() -> None:
    schema = tool_schema(SOURCE, arguments=Arguments)
    assert (schema["name"], schema["description"]) == ("f", "Do it.")
    assert schema["parameters"] == {
        "type": "object",
        "properties": {"title": {"type": "string", "description": "Which city.", "default": "x"}},
        "required": [],
        "additionalProperties": False,
    }
    plain = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
    assert list(tool_schema(SOURCE, arguments=plain)["parameters"]["properties"]) == ["town"]


def test_explicit_arguments_need_no_documentation_in_the_source() -> None:
    schema = tool_schema("def f(a): ...\n", arguments=Arguments)
    assert (schema["name"], schema["description"]) == ("f", "The f tool")


def test_a_changed_source_has_a_changed_schema() -> None:
    assert "a" in tool_schema(SOURCE)["parameters"]["properties"]
    assert "b" in tool_schema(SOURCE.replace("a:", "b:"))["parameters"]["properties"]


def test_an_incomplete_source_has_no_schema_and_a_list_of_faults() -> None:
    with pytest.raises(SourceError, match="line 1: the parameter a has no annotation") as refusal:
        tool_schema("def f(a): ...\n")
    assert refusal.value.line == 1


def test_a_source_of_several_tools_needs_a_chosen_tool() -> None:
    two = 'def f() -> None:\n    """F."""\n\n\ndef g() -> None:\n    """G."""\n'
    with pytest.raises(SourceError, match="f, g"):
        tool_schema(two)
    assert tool_schema(two, entry="g")["name"] == "g"


def test_a_fault_of_another_callable_does_not_count() -> None:
    assert tool_schema(SOURCE + "\n\ndef g(x): ...\n", entry="f")["name"] == "f"


def test_both_sandboxes_give_reports_and_schemas_without_opening_a_box() -> None:
    with Sandbox(backend="no such backend") as sandbox:
        assert sandbox.check(SOURCE).ok
        assert [each.display_name for each in sandbox.metadata(SOURCE)] == ["F"]
        assert sandbox.schema(SOURCE).document["name"] == "f"
        assert "input_schema" in sandbox.schema(SOURCE, format="anthropic").document
        assert '"strict": true' in json.dumps(sandbox.schema(SOURCE, format="openai", strict=True).document)
        assert sandbox.schema(SOURCE, strict=True).document["strict"] is True
        assert sandbox.schema(SOURCE, format="mcp").document["title"] == "F"
        with pytest.raises(SpecError, match="openai, openai-responses, anthropic, mcp, json"):
            sandbox.schema(SOURCE, format="nobody")
        with pytest.raises(SpecError, match="colour"):
            sandbox.check(SOURCE, colour="red")  # type: ignore[call-arg]  # a field that there is not


def _spoil(node: Any) -> None:
    """Empty the schema, at every depth."""
    for each in list(node.values() if isinstance(node, dict) else node):
        if isinstance(each, dict | list):
            _spoil(each)
    node.clear()


@pytest.mark.parametrize("shape", [None, "openai", "openai-responses", "anthropic", "mcp", "json"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_change_of_a_returned_schema_affects_no_other_caller(shape: str | None, strict: bool) -> None:
    with Sandbox(backend="no such backend") as sandbox:
        expected = sandbox.schema(SOURCE, format=shape, strict=strict).document
        before = json.dumps(expected)
        _spoil(sandbox.schema(SOURCE, format=shape, strict=strict).document)
        for each in sandbox.check(SOURCE).callables:
            _spoil(each.schema_)
        _spoil(tool_schema(SOURCE))
        assert json.dumps(sandbox.schema(SOURCE, format=shape, strict=strict).document) == before


def test_a_report_is_one_json_document() -> None:
    document = json.loads(check_source(SOURCE).to_json())
    assert document["schema"]["name"] == document["callables"][0]["schema"]["name"] == "f"


def test_classes_nested_too_deeply_are_reported() -> None:
    classes = [f"@dataclass\nclass A{each}:\n    x: A{each + 1}" for each in range(40)]
    lines = ["from dataclasses import dataclass", *classes, "@dataclass\nclass A40: ...", "def f(a: A0): ..."]
    (problem,) = (each for each in check_source("\n".join(lines)).problems if "annotation" in each.message)
    assert problem.message.endswith("it is nested too deeply")


def test_too_many_problems_are_counted() -> None:
    report = check_source("\n".join(f"@tool\ndef f{number}(a: int): ..." for number in range(150)))
    assert not report.ok
    assert len(report.problems) == 201
    last = report.problems[-1]
    assert (last.code, last.severity, last.message) == (
        "more_problems",
        "error",
        "100 more of this kind are not listed",
    )


# Schemas by pydantic of the same functions, really executed

BEFORE: Final = """
from __future__ import annotations
import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import *
from uuid import UUID
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

class Color(Enum):
    RED = "red"
    BLUE = "blue"

class Level(IntEnum):
    LOW = 1
    HIGH = 2

class Place(BaseModel):
    '''A place.'''
    name: str = Field(min_length=1, description="Its name.")
    size: int = Field(3, ge=1, le=9)
    tags: list[str] = []

class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    place: Place
    others: dict[str, Place] = {}

@dataclass
class Point:
    x: float
    y: float = 0.0

class Movie(TypedDict, total=False):
    name: Required[str]
    year: int

class Pair(NamedTuple):
    left: int
    right: str

class Node(BaseModel):
    value: int
    children: list[Node] = []

T = TypeVar("T")

class Page(BaseModel, Generic[T]):
    items: list[T]
    size: int = 0

class Pages(Page[dict[str, T]], Generic[T]):
    first: T

class Tags(RootModel[list[Place]]):
    '''Some places.'''

LIMIT = 5
"""
TEXTS: Final = ("a", "ab", "red", "x", "5", "true", "null", "[1]", '{"k": 1}', "2026-05-31")
ANNOTATIONS: Final = [
    "str", "int", "float", "bool", "None", "Any", "object", "list[int]", "List[str]", "list[Any]", "Sequence[int]",
    "set[int]", "FrozenSet[str]", "tuple[int, str]", "tuple[int, ...]", "dict[str, int]", "Mapping[str, list[bool]]",
    "Optional[int]", "int | None", "Union[int, str]", "int | str | None", "list[int | None]", "Literal['a', 'b']",
    "Literal[1, 2]", "Color", "Level", "list[Color]", "dt.datetime", "dt.date", "dt.time", "dt.timedelta", "UUID",
    "Path", "bytes", "Place", "Closed", "Point", "Movie", "list[Movie]", "Node", "Annotated[int, Field(ge=1, lt=9)]",
    "Annotated[str, Field(min_length=2, pattern='^a')]", "Annotated[list[int], Field(max_length=3)]", "'list[int]'",
    "Annotated[float, Field(gt=0, multiple_of=0.5)]", "int = 3", "str = 'x'", "int = LIMIT", "list[int] = [1]",
    "Place | None = None", "Color = Color.RED", "dict[str, list[tuple[int, int]]]",
    "list[Place] | None = None", "dict[str, Place]", "Place | Point", "list[Place | Movie]", "tuple[Place, int]",
    "set[Color]", "Optional[list[Node]] = None", "Node | int", "list[list[Place | None]]", "Place | Place | int",
    "dict[str, Place | list[Point]]", "list[Place] | list[Point] | list[int]", "Annotated[Place, Field(title='x')]",
    "Annotated[list[Place], Field(min_length=1)]", "Annotated[Place | None, Field(description='x')] = None",
    "tuple[Node, ...]", "Union[Place, list[Union[Point, str]], None] = None", "Sequence[Closed]",
    "Annotated[dict[str, Place], Field(min_length=1)]", "list[Annotated[int, Field(ge=1)]]", "Level = Level.LOW",
    "Annotated[list[str] | None, Field(max_length=5)] = None", "Annotated[str | None, Field(pattern='^a')] = None",
    "Annotated[dict[str, int] | None, Field(min_length=1)] = None", "list[Annotated[str | None, Field(pattern='a')]]",
    "Annotated[Optional[set[int]], Field(min_length=1, description='x')] = None", "Page[Place]", "Page[int] = None",
    "list[Page[list[str]]]", "Pages[int]", "Page[Page[bool]]", "Pages[Color]", "Tags", "list[Tags] | Page[Tags]",
]  # fmt: skip


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_a_schema_equals_that_of_pydantic_for_the_running_function(
    annotation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"{BEFORE}\ndef f(a: {annotation}): ...\n"
    (callable_,) = check_source(source).callables
    assert _comparable(callable_.schema_["parameters"]) == _comparable(_of_pydantic(source, monkeypatch))


def _of_pydantic(source: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = ModuleType("executed")
    monkeypatch.setitem(sys.modules, "executed", module)
    exec(compile(source, "executed", "exec"), module.__dict__)
    signature = inspect.signature(module.f, eval_str=True)
    fields: dict[str, Any] = {
        name: (each.annotation, ... if each.default is each.empty else each.default)
        for name, each in signature.parameters.items()
    }
    return TypeAdapter(create_model("Arguments", **fields)).json_schema()


def _comparable(schema: dict[str, Any]) -> Any:
    """Write two schemas alike where they say the same in different ways."""
    definitions = schema.get("$defs", {})
    node = _plain({key: value for key, value in schema.items() if key != "$defs"}, definitions, depth=0)
    node["required"] = sorted(name for name in node.get("required", []) if not _admits_null(schema["properties"][name]))
    node["properties"] = {name: _without_null(each) for name, each in node["properties"].items()}
    return node


def _plain(node: Any, definitions: dict[str, Any], *, depth: int) -> Any:
    if isinstance(node, list):
        return [_plain(each, definitions, depth=depth) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        if depth > 3:
            return "deeper"
        rest = {key: value for key, value in node.items() if key != "$ref"}
        inner = {**definitions[node["$ref"].rpartition("/")[2]], **rest}
        return _plain(inner, definitions, depth=depth + 1)
    plain = {
        key: {name: _plain(each, definitions, depth=depth) for name, each in value.items()}
        if key == "properties"
        else _plain(value, definitions, depth=depth)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if plain.get("required") == []:
        del plain["required"]
    return plain


def _admits_null(node: dict[str, Any]) -> bool:
    return node == {"type": "null"} or {"type": "null"} in node.get("anyOf", []) or node.get("type") == "null"


def _without_null(node: Any) -> Any:
    if not isinstance(node, dict) or "anyOf" not in node:
        return node
    members = [each for each in node["anyOf"] if each != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**members[0], **rest} if len(members) == 1 else {**rest, "anyOf": members}


# Values that a schema accepts

SCALARS: Final = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(TEXTS)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "x", "left", "right", "value", "k"]), inner)
    ),
    max_leaves=6,
)


def _closed(node: Any) -> Any:
    """Close the schema, because a call refuses extra members although the schema does not say so."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    return {"additionalProperties": False, **closed} if isinstance(node.get("properties"), dict) else closed


@pytest.mark.slow
@given(st.sampled_from(ANNOTATIONS), VALUES)
@settings(max_examples=600)
def test_values_that_the_schema_accepts_are_accepted_by_the_call(annotation: str, value: Any) -> None:
    source = f"{BEFORE}\ndef f(a: {annotation}): ...\n"
    (callable_,) = check_source(source).callables
    if '"format"' in json.dumps(callable_.schema_):
        return  # a format informs models, and not every validator checks it
    if validator(_closed(callable_.schema_["parameters"])).is_valid({"a": value}):
        assert bind(read_tool(source), {"a": value}).problems == ()


def _nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"value": depth}
    for level in reversed(range(depth)):
        node = {"value": level, "children": [node]}
    return node


def test_a_recursive_type_accepts_values_of_any_depth() -> None:
    tool = read_tool(f"{BEFORE}\ndef f(a: Node): ...\n")
    binding = bind(tool, {"a": _nested(95)})
    assert binding.arguments == {"a": _nested(95)}
    wrong = {"value": 1, "children": [{"value": 1, "children": [{"value": "x"}]}]}
    assert [each.path for each in bind(tool, {"a": wrong}).problems] == ["a.children[0].children[0].value"]


@pytest.mark.parametrize(("value", "is_taken"), [(1.5, True), ("low", True), (2, False), (1.25, False)])
def test_an_enum_accepts_its_values_of_any_type(value: object, is_taken: bool) -> None:
    tool = read_tool("class E(Enum):\n  A = 1.5\n  B = 'low'\ndef f(a: E): ...\n")
    assert (bind(tool, {"a": value}).problems == ()) is is_taken


def test_an_optional_member_gets_none_if_its_class_requires_it() -> None:
    source = "@dataclass\nclass P:\n  x: int | None\n  y: int | None = 3\ndef f(a: P): ...\n"
    assert bind(read_tool(source), {"a": {}}).arguments == {"a": {"x": None}}
    assert bind(read_tool(source), {"a": {"x": 1}}).arguments == {"a": {"x": 1}}


def test_members_are_converted_and_refused_like_arguments() -> None:
    source = "@dataclass\nclass P:\n  x: int\n  y: list[float]\ndef f(a: P, b: Annotated[int, Field(ge=3)] = 3): ...\n"
    tool = read_tool(source)
    assert bind(tool, {"a": '{"x": "1", "y": "[2]"}', "b": "4"}).arguments == {"a": {"x": 1, "y": [2.0]}, "b": 4}
    problems = bind(tool, {"a": {"x": "one", "z": 1}, "b": "2"}).problems
    assert sorted(each.path for each in problems) == ["a.x", "a.y", "a.z", "b"]


def test_a_source_of_a_newer_python_may_name_its_aliases() -> None:
    tool = read_tool("type Ids = list[int]\n\ndef f(a: Ids): ...\n")
    assert bind(tool, {"a": ["1"]}).arguments == {"a": [1]}
    assert "type Ids" in tool.text
