"""Arguments on their way into a real box and back: what fits comes out as it went in, and what does not says where."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import Sandbox, Status

PRELUDE: Final = """
from __future__ import annotations
import dataclasses, datetime, decimal, enum, pathlib, uuid
from typing import Literal, NamedTuple, Optional, TypedDict, Union

class Colour(enum.Enum):
    RED = "red"
    TWO = 2

@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5
    on: Optional[datetime.date] = None

class Pair(NamedTuple):
    a: int
    b: str

class Options(TypedDict, total=False):
    colour: Colour
    tags: set[str]

@dataclasses.dataclass
class Tree:
    value: int
    below: list[Tree] = dataclasses.field(default_factory=list)

def plain(it):
    if dataclasses.is_dataclass(it):
        return {field.name: plain(getattr(it, field.name)) for field in dataclasses.fields(it)}
    if hasattr(it, "_asdict"):
        return plain(it._asdict())
    if isinstance(it, dict):
        return {key: plain(value) for key, value in it.items()}
    if isinstance(it, (set, frozenset)):
        return sorted(map(plain, it), key=repr)
    if isinstance(it, (list, tuple)):
        return [plain(each) for each in it]
    if isinstance(it, enum.Enum):
        return it.value
    if isinstance(it, (datetime.datetime, datetime.date, datetime.time)):
        return it.isoformat()
    if isinstance(it, datetime.timedelta):
        return "PT%.6fS" % it.total_seconds()
    if isinstance(it, bytes):
        return it.decode()
    return str(it) if isinstance(it, (uuid.UUID, decimal.Decimal, pathlib.Path)) else it
"""
TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]))
INTEGER: Final = st.integers(-(2**63), 2**63 - 1)
NUMBER: Final = st.floats(allow_nan=False, allow_infinity=False)
JSON: Final = st.recursive(
    st.none() | st.booleans() | INTEGER | NUMBER | TEXT | st.sampled_from(["red", "2", "null", "2024-01-01", "PT1S"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.sampled_from("xyab"), inner, max_size=3),
    max_leaves=8,
)
_TREE: Final = st.recursive(
    st.fixed_dictionaries({"value": INTEGER, "below": st.just([])}),
    lambda inner: st.fixed_dictionaries({"value": INTEGER, "below": st.lists(inner, max_size=2)}),
    max_leaves=4,
)
_POINT: Final = st.fixed_dictionaries({"x": INTEGER, "y": NUMBER, "on": st.none() | st.dates().map(str)})
SHAPES: Final[dict[str, tuple[str, st.SearchStrategy[Any]]]] = {
    "text": ("str", TEXT),
    "anything": ("object", JSON),
    "integers": ("int", INTEGER),
    "numbers": ("float", NUMBER),
    "a tuple": ("tuple[int, str]", st.tuples(INTEGER, TEXT).map(list)),
    "an enum": ("Colour", st.sampled_from(["red", 2])),
    "a dataclass": ("Point", _POINT),
    "an optional dataclass": ("Optional[Point]", st.none() | _POINT),
    "a named tuple": ("Pair", st.fixed_dictionaries({"a": INTEGER, "b": TEXT})),
    "a typed dict": ("Options", st.fixed_dictionaries({}, optional={"colour": st.sampled_from(["red", 2])})),
    "a tree": ("Tree", _TREE),
    "a mapping": ("dict[str, Pair]", st.dictionaries(TEXT, st.fixed_dictionaries({"a": INTEGER, "b": TEXT}))),
    "a union of classes": ("Union[Pair, Point]", _POINT | st.fixed_dictionaries({"a": INTEGER, "b": TEXT})),
    "a union with text": ("Union[datetime.date, int, str]", st.dates().map(str) | INTEGER | TEXT),
    "literals": ("Literal['a', 1, None]", st.sampled_from(["a", 1, None])),
    "moments": ("datetime.datetime", st.datetimes().map(lambda each: each.isoformat())),
    "days": ("datetime.date", st.dates().map(str)),
    "times": ("datetime.time", st.times().map(lambda each: each.isoformat())),
    "durations": ("datetime.timedelta", st.integers(0, 10**9).map(lambda seconds: f"PT{seconds}.000000S")),
    "identifiers": ("uuid.UUID", st.uuids().map(str)),
    "decimals": ("decimal.Decimal", st.decimals(allow_nan=False, allow_infinity=False).map(str)),
    "bytes": ("bytes", TEXT),
    "paths": ("pathlib.Path", st.sampled_from(["a", "a/b", "/x", "."])),
}
_quickly = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def _source(annotation: str) -> str:
    return f"{PRELUDE}\ndef tool(items: list[{annotation}]) -> list:\n    return [plain(each) for each in items]\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_what_fits_comes_out_as_it_went_in(name: str, sandbox: Sandbox) -> None:
    annotation, values = SHAPES[name]

    @_quickly
    @given(st.lists(values, min_size=1, max_size=20))
    def check(items: list[Any]) -> None:
        outcome = sandbox.run(_source(annotation), {"items": items})
        assert (outcome.status, outcome.problems) == (Status.OK, ())
        assert outcome.value == items
        assert [type(each) for each in outcome.value] == [type(each) for each in items]

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_any_value_is_taken_or_refused_with_its_path(name: str, sandbox: Sandbox) -> None:
    source = _source(SHAPES[name][0])

    @_quickly
    @given(st.lists(SHAPES[name][1] | JSON, max_size=10))
    def check(items: list[Any]) -> None:
        outcome = sandbox.run(source, {"items": items})
        if outcome.status is Status.INVALID:
            places = {each.path.partition("]")[0] for each in outcome.problems}
            assert places <= {f"items[{index}" for index in range(len(items))}
            return
        assert outcome.status is Status.OK, outcome
        again = sandbox.run(source, {"items": outcome.value})
        assert (again.status, again.value) == (Status.OK, outcome.value)

    check()


def test_what_only_the_class_itself_refuses_is_invalid_too(sandbox: Sandbox) -> None:
    source = """
import dataclasses
@dataclasses.dataclass
class Even:
    n: int
    def __post_init__(self):
        if self.n % 2:
            raise ValueError("must be even")
def tool(items: list[Even], by: dict[str, Even]) -> int:
    raise SystemError("called")
"""
    args = {"items": [{"n": 1}, {"n": 2}, {"n": 3}], "by": {"a": {"n": 5}}}
    outcome = sandbox.run(source, args)
    assert (outcome.status, outcome.exit_code) == (Status.INVALID, 2)
    assert [each.path for each in outcome.problems] == ["items[0]", "items[2]", "by.a"]
    assert {each.message for each in outcome.problems} == {"must be even"}
    assert outcome.error is not None
    assert outcome.receipt is not None  # the box was open, and the class is the tool's own code


def test_a_class_that_fails_otherwise_has_raised(sandbox: Sandbox) -> None:
    source = """
import dataclasses
@dataclasses.dataclass
class Broken:
    n: int
    def __post_init__(self):
        open("/nowhere/at/all")
def tool(it: Broken) -> int:
    return 1
"""
    outcome = sandbox.run(source, {"it": {"n": 1}})
    assert (outcome.status, outcome.error and outcome.error.type) == (Status.EXCEPTION, "FileNotFoundError")
    assert outcome.error is not None
    assert "__post_init__" in (outcome.error.traceback or "")


def test_arguments_are_no_globals_of_the_module(sandbox: Sandbox) -> None:
    source = "def tool(secret: str) -> list:\n    return [n for n, v in globals().items() if v == secret]\n"
    assert sandbox.run(source, {"secret": "hunter2"}).value == []


@pytest.mark.parametrize(
    "given",
    [
        {"n": float("nan")},
        {"n": float("inf")},
        {"n": 2**64},
        {"n": "\ud800"},
        {"n": [[]] * 3, "deep": None},
        {"n": object()},
    ],
)
def test_what_json_does_not_have_is_invalid_with_a_reason(given: dict[str, Any], sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool(n: int) -> int:\n    return n\n", given)
    assert outcome.status is Status.INVALID
    assert all(each.path and each.message for each in outcome.problems)


@pytest.mark.slow
def test_large_and_deep_arguments_work_or_are_invalid(sandbox: Sandbox) -> None:
    source = "import dataclasses\n@dataclasses.dataclass\nclass Node:\n    below: 'Node | None' = None\n"
    source += "def tool(text: str = '', node: Node | None = None, any: list = []) -> int:\n"
    source += "    n = 0\n    while node: n, node = n + 1, node.below\n    return len(text) + n\n"
    assert sandbox.run(source, {"text": "x" * (9 << 20)}).value == 9 << 20
    assert sandbox.run(source, {"text": "x" * (11 << 20)}).status is Status.INVALID
    for depth in (2, 20, 150, 199, 201, 5000):
        node: Any = {}
        for _ in range(depth - 1):
            node = {"below": node}
        outcome = sandbox.run(source, {"node": node})
        assert outcome.value == depth or outcome.status is Status.INVALID, (depth, outcome)
