"""Values outside of JSON, and arguments of any size and depth, give a bounded answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.tools import Binding, bind
from tests.processor_time import within
from tests.unit.tools.test_arguments import bind_value, is_bounded, tool_with


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


NOT_PLAIN = [
    float("nan"),
    float("inf"),
    -float("inf"),
    "\ud800",
    "a\udfffb",
    2**63,
    -(2**63) - 1,
    10**5000,
    {1, 2},
    b"bytes",
    object(),
    1j,
    {1: 2},
    {None: 1},
    {"\ud800": 1},
    int,
    range(3),
]


@pytest.mark.parametrize("annotation", ["Any", "str", "int", "list", "dict[str, int] | None"])
@pytest.mark.parametrize("value", NOT_PLAIN, ids=[str(number) for number in range(len(NOT_PLAIN))])
@pytest.mark.parametrize("nested", [False, True])
def test_a_value_outside_json_is_a_problem(annotation: str, value: object, nested: bool) -> None:
    problems = bind_value(annotation, [value] if nested else value).problems
    assert len(problems) == 1
    assert is_bounded(problems[0])


def test_subclasses_of_plain_values_become_plain_values() -> None:
    value = {"colour": Colour.RED, "level": Level.LOW, "map": MappingProxyType({"k": (1, True)})}
    taken = bind_value("Any", value).arguments["a"]
    assert taken == {"colour": "red", "level": 1, "map": {"k": [1, True]}}
    assert isinstance(taken, dict)
    assert [type(taken["colour"]), type(taken["level"])] == [str, int]


def test_the_callers_own_values_are_not_changed() -> None:
    given_value: dict[str, list[object]] = {"k": ["1"]}
    taken = bind_value("Any", given_value).arguments["a"]
    given_value["k"].append("2")
    assert taken == {"k": ["1"]}


def _nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_200_works_and_more_is_a_problem() -> None:
    assert bind_value("Any", _nested(200)).problems == ()
    assert "200 levels" in bind_value("Any", _nested(201)).problems[0].message
    assert len(bind_value("Any", _nested(100_000)).problems) == 1
    assert bind_value("list", json.dumps(_nested(200))).problems == ()
    assert len(bind_value("list", "[" * 100_000).problems) == 1


def test_a_value_that_contains_itself_is_a_problem() -> None:
    value: list[object] = []
    value.append(value)
    assert len(bind_value("Any", value).problems) == 1


@pytest.mark.slow
def test_a_value_that_contains_another_very_often_is_a_problem() -> None:
    value: list[object] = []
    for _ in range(100):
        value = [value, value]
    assert "1000000 values" in bind_value("Any", value).problems[0].message


def test_deep_arguments_near_the_recursion_limit_do_not_raise() -> None:
    tool = tool_with("a: list[list[list[int]]] | None")
    bind(tool, {})

    def descend(levels: int) -> Binding:
        return descend(levels - 1) if levels else bind(tool, {"a": _nested(150)})

    frame, used = sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1
    assert descend(max(0, sys.getrecursionlimit() - used - 60)).problems != ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "annotation", ["str", "Any", "list", "int", "str | list[int]", "list[int] | None", "bool", "float"]
)
def test_ten_mebibytes_work_or_are_a_problem(annotation: str) -> None:
    for size in (10 * 1024 * 1024 - 10, 10 * 1024 * 1024 + 10):
        binding = bind_value(annotation, "[" + "x" * (size - 2) + "]")
        fits = annotation in ("str", "Any", "str | list[int]") and size < 10 * 1024 * 1024
        assert (binding.problems == ()) is fits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("annotation", "make"),
    [
        ("list[int]", lambda: ["x"] * 500_000),
        ("list[list[int]]", lambda: [["x"]] * 300_000),
        ("list[tuple[int, int]]", lambda: [[1]] * 300_000),
        ("list[int | list[str]]", lambda: [None] * 500_000),
        ("dict[str, Literal['a']]", lambda: {str(number): 1 for number in range(300_000)}),
        ("list[Literal['a']]", lambda: "[" + "1," * 300_000 + "1]"),
    ],
)
def test_a_great_many_wrong_values_give_a_bounded_answer(annotation: str, make: Callable[[], object]) -> None:
    problems = bind_value(annotation, make()).problems
    assert 1 <= len(problems) <= 100
    assert all(is_bounded(problem) for problem in problems)


@pytest.mark.slow
def test_a_great_many_unknown_arguments_give_a_bounded_answer() -> None:
    problems = bind(tool_with("a: int"), {"x" * 300 + str(number): number for number in range(10_000)}).problems
    assert len(problems) == 100
    assert all(is_bounded(problem) for problem in problems)


@pytest.mark.slow
def test_unions_inside_unions_end_in_time() -> None:
    annotation = "int"
    for _ in range(5):
        annotation = f"list[{annotation}] | set[{annotation} | bool] | frozenset[{annotation} | None]"
    wrong: object = [*[1] * 500_000, "x"]
    for _ in range(4):
        wrong = [wrong]
    with within(20):
        assert "combinations" in bind_value(annotation, wrong).problems[0].got


def test_a_wrong_value_late_in_a_union_of_lists_is_still_found() -> None:
    assert len(bind_value("list[int | str]", [1] * 1000 + ["x"] * 1000 + [None]).problems) == 1
    assert bind_value("list[Literal['a'] | int]", ["a"] * 1000 + [1] * 1000).problems == ()


@pytest.mark.parametrize(
    "annotation",
    [
        "list[" * 90 + "int" + "]" * 90,
        "Union[" + ", ".join(f"Literal[{number}]" for number in range(1000)) + "]",
        "Literal[" + ", ".join(str(number) for number in range(2500)) + "]",
        " | ".join(["int"] * 2500),
        "tuple[" + "int, " * 2500 + "]",
        "'" * 3 + '"int"' * 1000 + "'" * 3,
        "-" * 900 + "1",
        "a" + ".b" * 900,
    ],
)
def test_an_annotation_of_any_shape_gives_an_answer(annotation: str) -> None:
    for value in (1, "x", [1], None):
        assert isinstance(bind_value(annotation, value), Binding)


def test_binding_ten_fields_is_fast() -> None:
    names = "abcdefghij"
    tool = tool_with(", ".join(f"{name}: {kind}" for name, kind in zip(names, ["int", "str"] * 5, strict=True)))
    args = dict(zip(names, [1, "x"] * 5, strict=True))
    bind(tool, args)
    with within(0.05):
        for _ in range(1000):
            bind(tool, args)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters(codec=None)),
        st.binary(max_size=3),
        st.sampled_from(["null", "true", "[1, 2]", '{"k": "v"}', "5", "1e999", "[[[", '"x"', "NaN", "-0"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.text(), inner),
        st.tuples(inner, inner),
        st.dictionaries(st.integers(), inner),
    ),
    max_leaves=10,
)
ANNOTATIONS = st.recursive(
    st.sampled_from(
        [
            *("int", "str", "float", "bool", "None", "list", "dict", "tuple", "set", "Any", "Unknown", "'int'"),
            *("tuple[()]", "Literal[1,'a',None]", "Literal[True]"),
        ]
    ),
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("dict[str, {}]".format),
        inner.map("Optional[{}]".format),
        inner.map("tuple[{}, ...]".format),
        inner.map("Annotated[{}, 'x']".format),
        st.tuples(inner, inner).map(lambda pair: f"Union[{pair[0]}, {pair[1]}]"),
        st.tuples(inner, inner).map(lambda pair: f"tuple[{pair[0]}, {pair[1]}]"),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(annotation=ANNOTATIONS, value=VALUES)
def test_any_value_for_any_type_is_plain_json_or_a_problem(annotation: str, value: object) -> None:
    binding = bind_value(annotation, value)
    json.dumps(binding.arguments, allow_nan=False).encode()
    assert bool(binding.arguments) is not bool(binding.problems)
    assert all(is_bounded(problem) for problem in binding.problems)


@pytest.mark.slow
@given(annotation=ANNOTATIONS, value=VALUES)
def test_accepted_arguments_are_accepted_again_unchanged(annotation: str, value: object) -> None:
    binding = bind_value(annotation, value)
    if not binding.problems:
        assert bind_value(annotation, binding.arguments["a"]) == binding


@pytest.mark.slow
@given(st.dictionaries(st.one_of(st.text(st.characters(codec=None)), st.integers(), st.none()), VALUES))
def test_any_arguments_give_a_binding(args: dict[str, object]) -> None:
    for tool in (tool_with("a: int, b: str = ''"), tool_with("**rest")):
        binding = bind(tool, args)
        json.dumps(binding.arguments, allow_nan=False).encode()


@given(st.text())
def test_any_quoted_annotation_gives_a_binding(annotation: str) -> None:
    assert isinstance(bind_value(repr(annotation), 1), Binding)
