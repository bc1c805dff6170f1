"""Arguments are rebuilt as annotated, on every Python of this machine; a misfit names its path."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.runners.interpreters import interpreters

RUNNER: Final = ROOT / "runners" / "python"
SHAPES: Final = """
import collections, dataclasses, datetime, decimal, enum, ipaddress, pathlib, uuid
from typing import *
class Colour(enum.Enum):
    RED = "red"
    TWO = 2
    PAIR = (1, 2)
class Level(enum.IntEnum):
    LOW = 1
class Bits(enum.Flag):
    A = 1
    B = 2
@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5
    on: "Optional[datetime.date]" = None
    kind: ClassVar[int] = 3
@dataclasses.dataclass(frozen=True)
class Line:
    ends: "Tuple[Point, Point]"
    note: Optional[str]
    scale: dataclasses.InitVar[int] = 1
@dataclasses.dataclass
class Even:
    n: int
    def __post_init__(self):
        if self.n % 2: raise ValueError("must be even")
class Pair(NamedTuple):
    a: int
    b: Optional[str]
    c: str = "c"
class Options(TypedDict, total=False):
    when: datetime.datetime
    tags: Set[str]
@dataclasses.dataclass
class Tree:
    value: int
    below: "List[Tree]" = dataclasses.field(default_factory=list)
UserId = NewType("UserId", int)
class set_of(list): pass
UTC = datetime.timezone.utc
"""
FITTING: Final = [
    ("Colour", "red", "Colour.RED"),
    ("Colour", 2, "Colour.TWO"),
    ("Colour", [1, 2], "Colour.PAIR"),
    ("Level", 1, "Level.LOW"),
    ("Bits", 3, "Bits.A | Bits.B"),
    ("Point", {"x": 1}, "Point(1, 0.5)"),
    ("Point", {"x": 1, "y": 2, "on": "2024-02-29"}, "Point(1, 2.0, datetime.date(2024, 2, 29))"),
    ("Optional[Point]", None, "None"),
    ("Line", {"ends": [{"x": 1}, {"x": 2}], "scale": 4}, "Line((Point(1), Point(2)), None)"),
    ("Even", {"n": 2}, "Even(2)"),
    ("Pair", {"a": 1}, "Pair(1, None)"),
    ("Pair", [1, "b"], "Pair(1, 'b')"),
    ("Options", {"tags": ["a", "a"]}, "{'tags': {'a'}}"),
    ("Options", {"when": "2024-01-01T00:00:00Z"}, "{'when': datetime.datetime(2024, 1, 1, tzinfo=UTC)}"),
    ("Tree", {"value": 1, "below": [{"value": 2}]}, "Tree(1, [Tree(2)])"),
    ("UserId", 7, "7"),
    (
        "datetime.datetime",
        "2024-01-02 03:04:05.6-0130",
        "datetime.datetime.fromisoformat('2024-01-02T03:04:05.600000-01:30')",
    ),
    ("datetime.datetime", "2024-01-02", "datetime.datetime(2024, 1, 2)"),
    ("datetime.date", "2024-01-02T00:00:00", "datetime.date(2024, 1, 2)"),
    ("datetime.time", "23:59", "datetime.time(23, 59)"),
    ("datetime.time", "01:02:03.123456789Z", "datetime.time(1, 2, 3, 123456, tzinfo=UTC)"),
    ("datetime.timedelta", "P1DT2H3M4.5S", "datetime.timedelta(days=1, hours=2, minutes=3, seconds=4.5)"),
    ("datetime.timedelta", "-P1W", "datetime.timedelta(weeks=-1)"),
    ("datetime.timedelta", "2 days, 1:02:03", "datetime.timedelta(days=2, hours=1, minutes=2, seconds=3)"),
    ("datetime.timedelta", 1.5, "datetime.timedelta(seconds=1.5)"),
    ("uuid.UUID", "12345678123456781234567812345678", "uuid.UUID(int=0x12345678123456781234567812345678)"),
    ("decimal.Decimal", "0.10", "decimal.Decimal('0.10')"),
    ("decimal.Decimal", 1.1, "decimal.Decimal('1.1')"),
    ("pathlib.Path", "a/../b", "pathlib.Path('a/../b')"),
    ("bytes", "h\u00e9", "'h\u00e9'.encode()"),
    ("bytearray", "a", "bytearray(b'a')"),
    ("ipaddress.IPv4Address", "192.0.2.1", "ipaddress.IPv4Address('192.0.2.1')"),
    ("ipaddress.IPv6Interface", "2001:db8::1/64", "ipaddress.IPv6Interface('2001:db8::1/64')"),
    ("Tuple[int, str]", [1, "a"], "(1, 'a')"),
    ("Tuple[datetime.date, ...]", ["2024-01-01"], "(datetime.date(2024, 1, 1),)"),
    ("tuple", [1, [2]], "(1, [2])"),
    ("Tuple", [1], "(1,)"),
    ("Set[Tuple[int, int]]", [[1, 2], [1, 2]], "{(1, 2)}"),
    ("FrozenSet[str]", ["a"], "frozenset({'a'})"),
    ("set", [], "set()"),
    ("AbstractSet[int]", [1], "{1}"),
    ("List[Point]", [{"x": 1}], "[Point(1)]"),
    ("Sequence[float]", [1], "[1.0]"),
    ("Dict[str, Set[int]]", {"5": [1]}, "{'5': {1}}"),
    ("Dict[int, Colour]", {"5": "red"}, "{5: Colour.RED}"),
    ("Dict[datetime.date, int]", {"2024-01-01": 1}, "{datetime.date(2024, 1, 1): 1}"),
    ("Mapping", {"a": [1]}, "{'a': [1]}"),
    ("float", 3, "3.0"),
    ("Literal['a', 1, True]", True, "True"),
    ("Literal[Colour.RED]", "red", "Colour.RED"),
    ("Union[datetime.date, str]", "2024-01-01", "'2024-01-01'"),
    ("Union[datetime.date, int]", "2024-01-01", "datetime.date(2024, 1, 1)"),
    ("Union[float, int]", 5, "5"),
    ("Union[float, str]", 5, "5.0"),
    ("Union[Pair, Point]", {"x": 1}, "Point(1)"),
    ("Union[List[Pair], List[Point]]", [{"x": 1}], "[Point(1)]"),
    ("Union[List[datetime.date], List[str]]", ["x"], "['x']"),
    ("Optional[Union[Pair, Set[int]]]", [1, 2, 3, 4], "{1, 2, 3, 4}"),
    ("Any", {"a": 1}, "{'a': 1}"),
    ("object", "2024-01-01", "'2024-01-01'"),
    ("str", "null", "'null'"),
    ("set_of", [1], "[1]"),
    ("'Point'", {"x": 1}, "Point(1)"),
    ("'NoSuchName'", {"x": 1}, "{'x': 1}"),
    ("Callable[[int], int]", 5, "5"),
]
UNFIT: Final = [
    ("Colour", "blue", [[]]),
    ("ipaddress.IPv4Address", "192.0.2.1.9", [[]]),
    ("Point", {"x": 1, "z": 2, "w": 3}, [["z"], ["w"]]),
    ("Point", [1], [[]]),
    ("Point", {}, [["x"]]),
    ("Even", {"n": 3}, [[]]),
    ("List[Even]", [{"n": 3}, {"n": 2}, {"n": 1}], [[0], [2]]),
    ("Dict[str, Tuple[int, int]]", {"a": [1], "b": [1, 2]}, [["a"]]),
    ("datetime.date", "2024-13-01", [[]]),
    ("datetime.date", "2024-01-01T01:00", [[]]),
    ("datetime.datetime", "tomorrow", [[]]),
    ("datetime.time", "25:00", [[]]),
    ("datetime.timedelta", "P", [[]]),
    ("datetime.timedelta", "P99999999999999999D", [[]]),
    ("uuid.UUID", "x", [[]]),
    ("decimal.Decimal", "x", [[]]),
    ("decimal.Decimal", True, [[]]),
    ("Set[List[int]]", [[1]], [[]]),
    ("Literal['a']", "b", [[]]),
    ("Union[int, Point]", "x", [[]]),
    ("Dict[int, int]", {"x": 1}, [[]]),
    ("Tree", {"value": 1, "below": [{"value": 1, "below": [{}]}]}, [["below", 0, "below", 0, "value"]]),
]
PROGRAM: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
from call import rebuild
names = {"__name__": "shapes"}
sys.modules["shapes"] = type(sys)("shapes")
sys.modules["shapes"].__dict__.update(names)
names = sys.modules["shapes"].__dict__
exec(sys.argv[2], names)
for hint, value, expected in json.load(sys.stdin):
    exec("def call(it: %s): pass" % hint, names)
    try:
        made = rebuild.rebuild_arguments(names["call"], {"it": value})["it"]
        right = eval(expected, names) if isinstance(expected, str) else expected
        said = "fits" if (type(made), made) == (type(right), right) else "%r, not %r" % (made, right)
    except rebuild.Misfit as misfit:
        said = [path[1:] for path, _ in misfit.problems]
        assert all(path[0] == "it" and 0 < len(text) <= 300 for path, text in misfit.problems), misfit.problems
    print(json.dumps(said))
"""


def _said(version: str, cases: list[tuple[str, Any, Any]]) -> list[Any]:
    answer = subprocess.run(
        [interpreters()[version], "-I", "-S", "-c", PROGRAM, str(RUNNER), SHAPES],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("version", interpreters())
def test_fitting_arguments_are_rebuilt_as_annotated(version: str) -> None:
    said = _said(version, FITTING)
    assert [(case[:2], each) for case, each in zip(FITTING, said, strict=True) if each != "fits"] == []


@pytest.mark.slow
@pytest.mark.parametrize("version", interpreters())
def test_a_misfit_names_the_path_of_each_problem(version: str) -> None:
    cases = [(hint, value, None) for hint, value, _ in UNFIT]
    assert dict(zip(map(str, cases), _said(version, cases), strict=True)) == {
        str(case): paths for case, (_, _, paths) in zip(cases, UNFIT, strict=True)
    }


MODELS: Final = (
    SHAPES
    + """
import pydantic
class Inner(pydantic.BaseModel):
    x: Optional[int]
    y: int
class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    when: datetime.datetime
    tags: Set[str] = set()
    colour: Colour = Colour.RED
class Tags(pydantic.RootModel[List[str]]): pass
class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int
class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    inner: Inner
Pet = Annotated[Union[Cat, Dog], pydantic.Field(discriminator="kind")]
@dataclasses.dataclass
class Home:
    pets: List[Pet]
"""
)


@pytest.mark.slow
def test_models_of_pydantic_are_made_by_pydantic() -> None:
    cases = [
        ("Inner", {"y": 1}, "Inner(x=None, y=1)"),
        ("Strict", {"when": "2024-01-01T00:00:00Z", "tags": ["a"], "colour": "red"},
         "Strict(when=datetime.datetime(2024, 1, 1, tzinfo=UTC), tags={'a'})"),
        ("List[Pet]", [{"kind": "cat", "lives": 9}], "[Cat(kind='cat', lives=9)]"),
        ("Pet", {"kind": "dog", "inner": {"y": 1}}, "Dog(kind='dog', inner=Inner(x=None, y=1))"),
        ("Union[int, Inner]", {"y": 1}, "Inner(x=None, y=1)"),
        ("Home", {"pets": [{"kind": "cat", "lives": 1}]}, "Home([Cat(kind='cat', lives=1)])"),
        ("Optional[Inner]", None, "None"),
        ("Tags", ["a"], "Tags(['a'])"),
        ("pydantic.SecretStr", "s", "pydantic.SecretStr('s')"),
        ("pydantic.HttpUrl", "https://example.org/a", "pydantic.HttpUrl('https://example.org/a')"),
        ("pydantic.AwareDatetime", "2024-01-01T00:00:00Z", "datetime.datetime(2024, 1, 1, tzinfo=UTC)"),
        ("Optional[pydantic.PastDate]", "2024-01-01", "datetime.date(2024, 1, 1)"),
        ("pydantic.UUID4", "0f8fad5b-d9cb-469f-a165-70867728950e", "uuid.UUID('0f8fad5bd9cb469fa16570867728950e')"),
        ("pydantic.EmailStr", "a@example.org", "'a@example.org'"),
        ("List[pydantic.AwareDatetime]", ["2024-01-01T00:00:00"], [[0]]),
        ("pydantic.HttpUrl", "no address", [[]]),
        ("Inner", {"x": "q"}, [["x"], ["y"]]),
        ("Strict", {"when": "x", "other": 1}, [["when"], ["other"]]),
        ("Dict[str, List[Inner]]", {"a": [{"y": 1}, {}]}, [["a", 1, "x"], ["a", 1, "y"]]),
    ]  # fmt: skip
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(RUNNER), MODELS],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    said = [json.loads(line) for line in answer.stdout.splitlines()]
    assert said == [expected if isinstance(expected, list) else "fits" for _, _, expected in cases]


DEFAULTS: Final = """
import functools, json, sys
sys.path.insert(0, sys.argv[1])
from call import rebuild
from pydantic import Field
def kept(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs): return function(*args, **kwargs)
    return wrapper
class A:
    @kept
    def execute(self, a: int, b: int = Field(2, ge=1), c: list = Field(default_factory=list), *, d=Field(...), e=5): ...
made = rebuild.rebuild_arguments(A().execute, {"a": 1, "c": [3], "d": 4})
again = rebuild.rebuild_arguments(A().execute, {"a": 1, "b": 7})
print(json.dumps([made, again]))
"""


@pytest.mark.slow
def test_a_field_in_the_place_of_a_default_gives_its_own() -> None:
    answer = subprocess.run([sys.executable, "-c", DEFAULTS, str(RUNNER)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == [{"a": 1, "b": 2, "c": [3], "d": 4}, {"a": 1, "b": 7, "c": []}]
