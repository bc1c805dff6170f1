"""Arguments are converted by the declared types alone, and all problems are reported at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox.tools import ArgumentProblem, Binding, ToolDefinition, bind, read_tool


def tool_with(parameters: str, *, before: str = "") -> ToolDefinition:
    return read_tool(f"{before}\ndef tool({parameters}): pass\n", entry="tool")


def bind_value(annotation: str, value: object) -> Binding:
    return bind(tool_with(f"a: {annotation}"), {"a": value})


def is_bounded(problem: ArgumentProblem) -> bool:
    texts = (problem.path, problem.message, problem.expected, problem.got)
    return all(len(text) <= 200 and text.isprintable() for text in texts)


TAKEN: list[tuple[str, object, object]] = [
    ("int", 5, 5),
    ("int", "5", 5),
    ("int", " -12 ", -12),
    ("int", 3.0, 3),
    ("int", -0.0, 0),
    ("int", 2**63 - 1, 2**63 - 1),
    ("int", str(-(2**63)), -(2**63)),
    ("float", 2.5, 2.5),
    ("float", 2, 2.0),
    ("float", "2.5", 2.5),
    ("float", "1e3", 1000.0),
    ("bool", True, True),
    ("bool", "false", False),
    ("bool", "TRUE", True),
    ("None", None, None),
    ("None", "null", None),
    *(
        ("str", text, text)
        for text in ["", "null", "true", '{"k": 1}', "1e3", "5", " a ", "[1]", "\x00", "é\U0001f600"]
    ),
    ("Optional[str]", "null", "null"),
    ("str | None", None, None),
    ("str | int", "5", "5"),
    ("int | str", "5", "5"),
    ("list", [1, "a", None], [1, "a", None]),
    ("list", "[1, 2]", [1, 2]),
    ("list[int]", ["1", 2.0, 3], [1, 2, 3]),
    ("List[int]", '["1", 2]', [1, 2]),
    ("typing.List[int]", (1, 2), [1, 2]),
    ("Sequence[str]", ["a"], ["a"]),
    ("collections.abc.Iterable[str]", ["a"], ["a"]),
    ("set[int]", [1, 1], [1, 1]),
    ("frozenset[int]", "[]", []),
    ("tuple[int, str]", ["1", "b"], [1, "b"]),
    ("tuple[int, ...]", ["1", 2], [1, 2]),
    ("tuple", "[1, null]", [1, None]),
    ("list[tuple[int, int]]", [[1, "2"]], [[1, 2]]),
    ("dict", {"k": [1]}, {"k": [1]}),
    ("dict", '{"k": 1}', {"k": 1}),
    ("dict[str, int]", {"k": "1"}, {"k": 1}),
    ("Mapping[str, list[bool]]", {"k": '["true"]'}, {"k": [True]}),
    ("Optional[int]", "null", None),
    ("Optional[int]", "5", 5),
    ("int | None", None, None),
    ("list[int] | None", "[1]", [1]),
    ("Union[int, bool]", True, True),
    ("Union[int, bool]", 1, 1),
    ("Union[int, bool]", "True", True),
    ("Union[bool, int]", "1", 1),
    ("float | int", 5, 5),
    ("int | float", 2.5, 2.5),
    ("int | float", 3.0, 3.0),
    ("list[int] | dict[str, int]", '{"k": "1"}', {"k": 1}),
    ("list[int] | list[str]", ["1"], ["1"]),
    ("Literal['a', 'b']", "b", "b"),
    ("Literal[1, 2]", "2", 2),
    ("Literal[1, 2]", 2.0, 2),
    ("Literal['1', 1]", "1", "1"),
    ("Literal[-1, True, None]", -1, -1),
    ("Literal[-1, True, None]", "null", None),
    ("Literal['a'] | None", None, None),
    ("'int'", "5", 5),
    ("'list[\"int\"]'", ["5"], [5]),
    ("Annotated[int, 'text']", "5", 5),
    ("Any", "5", "5"),
    ("object", {"k": "5"}, {"k": "5"}),
    ("int | Any", "5", "5"),
    ("Unknown", "5", "5"),
    ("other.List[int]", "5", "5"),
    ("list[Unknown]", "[1]", [1]),
    ("5", "5", "5"),
    ("print('x')", "5", "5"),
    ("list[int, int]", "5", "5"),
]


@pytest.mark.parametrize(("annotation", "given_value", "taken"), TAKEN)
def test_a_value_that_fits_its_type_is_accepted(annotation: str, given_value: object, taken: object) -> None:
    binding = bind_value(annotation, given_value)
    assert binding == Binding({"a": taken})  # type: ignore[dict-item]
    assert type(binding.arguments["a"]) is type(taken)
    json.dumps(binding.arguments, allow_nan=False)


PRICE = "Annotated[Decimal, Field(gt=0, max_digits=4, decimal_places=2)]"


@pytest.mark.parametrize("annotation", [PRICE, f"{PRICE} | None", "Annotated[Decimal | None, Field(gt=0, le=99.9)]"])
def test_the_bounds_of_a_decimal_compare_the_number_in_its_text(annotation: str) -> None:
    tool = tool_with(f"a: {annotation}", before="from decimal import Decimal")
    for fitting, text in [("1.50", "1.50"), (2, "2"), ("99.9", "99.9")]:
        assert bind(tool, {"a": fitting}) == Binding({"a": text})
    for wrong in ("0", -1, "100.25", "many"):
        (problem,) = bind(tool, {"a": wrong}).problems
        assert problem.path == "a"
    assert "greater than 0" in bind(tool, {"a": 0}).problems[0].message


@pytest.mark.parametrize("constraint", ["multiple_of=0", "multiple_of=0.0", "multiple_of=-1", "multiple_of='x'"])
def test_a_constraint_that_cannot_be_checked_is_not_accepted(constraint: str) -> None:
    for kind in ("int", "float | None", "Decimal", "list[int]"):
        tool = tool_with(f"a: Annotated[{kind}, Field({constraint})]", before="from decimal import Decimal")
        for value in (1, 1.5, "2", [1]):
            bind(tool, {"a": value})
    assert bind(tool_with(f"a: Annotated[int, Field({constraint})]"), {"a": 3}) == Binding({"a": 3})


FIELDS = (
    "q: str = Field(..., min_length=3), n: 'int' = Field(5, ge=MOST, le=MOST + 5),"
    " t: list[str] = Field(default_factory=list), *, x=Field(description='x'), y: int | None = Field(gt=0)"
)


def test_a_field_as_default_sets_requirement_and_type() -> None:
    tool = tool_with(FIELDS, before="from pydantic import Field\nMOST = 1")
    assert [(each.name, each.required) for each in tool.parameters] == [
        ("q", True),
        ("n", False),
        ("t", False),
        ("x", True),
        ("y", False),
    ]
    assert bind(tool, {"q": "abc", "x": [1]}) == Binding({"q": "abc", "x": [1], "y": None})
    assert bind(tool, {"q": "abc", "n": "3", "x": 1, "y": 2}).problems == ()
    problems = bind(tool, {"q": "a", "n": 7, "t": [1], "y": 0}).problems
    assert sorted(each.path for each in problems) == ["n", "q", "t[0]", "x", "y"]


REFUSED: list[tuple[str, object]] = [
    ("int", 3.9),
    ("int", True),
    ("int", "3.0"),
    ("int", "five"),
    ("int", "1_000"),
    ("int", "\u0665"),
    ("int", ""),
    ("int", None),
    ("int", [1]),
    ("int", str(2**63)),
    ("int", 1e300),
    ("float", True),
    ("float", "nan"),
    ("float", "Infinity"),
    ("float", "1e999"),
    ("float", "0x10"),
    ("bool", 1),
    ("bool", "yes"),
    ("bool", "1"),
    ("bool", ""),
    ("None", 0),
    ("str", 5),
    ("str", None),
    ("str", ["a"]),
    ("list", {"k": 1}),
    ("list", "1, 2"),
    ("list", "[1, 2"),
    ("list", "[NaN]"),
    ("list", '{"k": 1}'),
    ("dict", "[]"),
    ("dict", [["k", 1]]),
    ("tuple[int, str]", [1]),
    ("tuple[int, str]", [1, "a", "b"]),
    ("tuple[()]", [1]),
    ("Optional[int]", "x"),
    ("str | None", 5),
    ("Union[int, list[int]]", "[x]"),
    ("list[int] | int", '"5"'),
    ("Literal['a']", "A"),
    ("Literal[1]", True),
    ("Literal[True]", 1),
    ("Literal[1]", [1]),
    ("'int'", "x"),
]


@pytest.mark.parametrize(("annotation", "value"), REFUSED)
def test_a_value_that_does_not_fit_is_a_problem(annotation: str, value: object) -> None:
    binding = bind_value(annotation, value)
    assert binding.arguments == {}
    assert [problem.path for problem in binding.problems] == ["a"]


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        ("list[int]", [1, "x"], "a[1]"),
        ("list[list[int]]", [[1], [2, None]], "a[1][1]"),
        ("dict[str, int]", {"k": "x"}, "a.k"),
        ("list[dict[str, int]]", [{}, {"name": []}], "a[1].name"),
        ("list[int] | None", ["x"], "a[0]"),
        ("tuple[int, str]", [1, 2], "a[1]"),
        ("list[int]", '[1, "x"]', "a[1]"),
        ("Any", [0, {"k": [float("nan")]}], "a[1].k[0]"),
    ],
)
def test_a_problem_has_the_path_to_the_value(annotation: str, value: object, path: str) -> None:
    assert [problem.path for problem in bind_value(annotation, value).problems] == [path]


def test_unknown_missing_and_wrong_are_reported_together() -> None:
    tool = tool_with("count: int, name: str, rows: list[int] = ()")
    assert bind(tool, {"count": 3.9, "rows": [1, "x", "y"], "colour": "red"}).problems == (
        ArgumentProblem("colour", "the tool takes no argument of this name", "one of count, name, rows", '"red"'),
        ArgumentProblem("count", "must be an integer", "an integer", "3.9"),
        ArgumentProblem("name", "this argument is required and was not given", "a string", "nothing"),
        ArgumentProblem("rows[1]", "must be an integer", "an integer", '"x"'),
        ArgumentProblem("rows[2]", "must be an integer", "an integer", '"y"'),
    )


def test_a_value_that_is_not_json_is_reported_with_the_others_and_once() -> None:
    problems = bind(tool_with("a: float, b: int, c"), {"a": float("inf"), "b": "x"}).problems
    assert [problem.path for problem in problems] == ["a", "b", "c"]


def test_an_optional_parameter_without_a_default_gets_none() -> None:
    tool = tool_with("a: int | None, b: Optional[str], c: int = 5, d: int | None = 7")
    assert bind(tool, {}) == Binding({"a": None, "b": None})


def test_a_null_for_an_optional_argument_leaves_it_out() -> None:
    tool = tool_with("a: int | None, b: int = 5, c: int | None = 7, d: str = 'x'")
    assert bind(tool, {"a": None, "b": None, "c": None, "d": "null"}) == Binding({"a": None, "d": "null"})
    assert [each.path for each in bind(tool_with("a: int"), {"a": None}).problems] == ["a"]


def test_a_null_inside_a_model_leaves_the_member_out() -> None:
    tool = read_tool(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Seat:\n    row: int\n    place: int = 5\n    name: str | None = None\n"
        "def f(seats: list[Seat], other: dict) -> int:\n    return 1\n"
    )
    given = {"seats": [{"row": 1, "place": None, "name": None}], "other": {"any": None}}
    assert bind(tool, given) == Binding({"seats": [{"row": 1}], "other": {"any": None}})
    assert [each.path for each in bind(tool, {**given, "seats": [{"row": None}]}).problems] == ["seats[0].row"]


def test_a_written_out_schema_coerces_and_checks_its_arguments() -> None:
    tool = read_tool(
        "TOOL_NAME = 'ask'\nTOOL_DESCRIPTION = 'Asks.'\n"
        "TOOL_PARAMETERS = {'type': 'object', 'required': ['who'], '$defs': {'Count': {'type': 'integer'}},\n"
        "  'properties': {'who': {'type': 'string', 'minLength': 2}, 'n': {'type': 'integer', 'minimum': 1},\n"
        "  'deep': {'type': 'object', 'properties': {'x': {'type': 'number'}}, 'additionalProperties': False},\n"
        "  'kind': {'enum': ['a', 1]}, 'counts': {'type': 'array', 'items': {'$ref': '#/$defs/Count'}}}}\n"
        "async def run(**kwargs):\n    return kwargs\n"
    )
    given = {"who": "null", "n": "3", "deep": '{"x": "1.5"}', "kind": "1", "counts": ["1", 2]}
    assert bind(tool, given).arguments == {"who": "null", "n": 3, "deep": {"x": 1.5}, "kind": 1, "counts": [1, 2]}
    wrong = {"who": 5, "n": 3.9, "deep": {"y": 1}, "kind": 2, "counts": [1, "x"], "other": 1}
    paths = [each.path for each in bind(tool, wrong).problems]
    assert paths == ["other", "who", "n", "deep.y", "kind", "counts[1]"]
    assert [each.path for each in bind(tool, {"who": "x", "n": 0}).problems] == ["who", "n"]
    assert bind(tool, {"who": "xx", "n": None}).arguments == {"who": "xx"}


def test_extra_arguments_go_to_a_tool_that_accepts_them() -> None:
    tool = tool_with("a: int, **rest: int")
    assert bind(tool, {"a": "1", "b": "x", "parameter_0": [1]}) == Binding({"a": 1, "b": "x", "parameter_0": [1]})
    assert bind(tool, {"a": 1, "b": float("nan")}).problems[0].path == "b"


def test_a_tool_without_parameters_accepts_nothing() -> None:
    assert bind(tool_with(""), {}) == Binding({})
    assert bind(tool_with(""), {"a": 1}).problems[0].expected == "no arguments"


@pytest.mark.parametrize(
    "name",
    [
        "self",
        "schema",
        "json",
        "copy",
        "model_config",
        "model_fields",
        "_hidden",
        "__x",
        "parameter_0",
        "Arguments",
        "größe",
    ],
)
def test_a_parameter_may_have_any_name(name: str) -> None:
    assert bind(tool_with(f"{name}: int, other: int"), {name: "1", "other": 2}) == Binding({name: 1, "other": 2})


@pytest.mark.parametrize(
    ("before", "annotation", "value"),
    [
        ("class List: pass", "List[int]", "x"),
        ("int = str", "int", "x"),
        ("from mine import Sequence", "Sequence[int]", "x"),
        ("from mine import Thing as Any", "int | Any", "x"),
        ("import mine as dict", "dict", "x"),
    ],
)
def test_a_name_defined_by_the_source_hides_the_usual_type(before: str, annotation: str, value: object) -> None:
    assert bind(tool_with(f"a: {annotation}", before=before), {"a": value}) == Binding({"a": value})  # type: ignore[dict-item]


def test_a_name_imported_from_typing_has_its_usual_meaning() -> None:
    tool = tool_with("a: List[int]", before="from typing import List, Optional")
    assert bind(tool, {"a": ["1"]}) == Binding({"a": [1]})


def test_an_annotation_is_never_evaluated(tmp_path: Path) -> None:
    witness = tmp_path / "evaluated"
    tool = tool_with(f"a: open('{witness}', 'w'), b: \"list[open('{witness}', 'w')]\"")
    assert bind(tool, {"a": 1, "b": [2]}).problems == ()
    assert not witness.exists()
