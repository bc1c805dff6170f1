"""Objects of well-known classes become their content, and impostors do no harm."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import itertools
import json
import pathlib
import sys
import types
import uuid
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from call import objects, values

LIMIT: Final = 1 << 20


@pytest.fixture(autouse=True)
def frames() -> Iterator[None]:
    """Allow as many frames as a call does."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4000)
    yield
    sys.setrecursionlimit(limit)


def plain(value: object, *, limit: int = LIMIT) -> tuple[Any, list[str]]:
    text, warnings = values.serialise(value, limit)
    assert text.isascii()
    return json.loads(text), warnings


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, "two")


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: int
    inner: Any = None


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x",)
    x: int


class Model(BaseModel):
    when: datetime.date
    price: decimal.Decimal
    colour: Colour = Colour.RED
    inner: Model | None = None


DAY: Final = datetime.date(2026, 1, 2)
OPENED: Final[dict[str, tuple[Any, Any]]] = {
    "enum": (Colour.RED, "red"),
    "enum of a tuple": (Colour.PAIR, [1, "two"]),
    "enum of numbers": (Level.LOW, 1),
    "flags": (Mode.READ | Mode.WRITE, 3),
    "dataclass": (Point(1, [Point(2)]), {"x": 1, "inner": [{"x": 2, "inner": None}]}),
    "dataclass with slots": (Slotted(1), {"x": 1}),
    "model": (
        Model(when=DAY, price=decimal.Decimal("1.10"), inner=Model(when=DAY, price=decimal.Decimal(2))),
        {
            "when": "2026-01-02",
            "price": "1.10",
            "colour": "red",
            "inner": {"when": "2026-01-02", "price": "2", "colour": "red", "inner": None},
        },
    ),
    "model of a list": (RootModel[list[int]]([1]), [1]),
    "date": (DAY, "2026-01-02"),
    "time": (datetime.time(1, 2, 3), "01:02:03"),
    "moment": (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC), "2026-01-02T03:04:00+00:00"),
    "duration": (datetime.timedelta(days=1, seconds=2, microseconds=500_000), "P1DT2.5S"),
    "negative duration": (datetime.timedelta(seconds=-90), "-P0DT90S"),
    "decimal": (decimal.Decimal("0.1000"), "0.1000"),
    "fraction": (fractions.Fraction(1, 3), "1/3"),
    "uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "path": (pathlib.PurePosixPath("/a/b"), "/a/b"),
    "address": (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8"),
    "bytes": (b"\x00\xff", {"$type": "bytes", "base64": "AP8=", "bytes": 2}),
    "bytearray": (bytearray(b"a"), {"$type": "bytes", "base64": "YQ==", "bytes": 1}),
    "memoryview": (memoryview(b"ab"), {"$type": "bytes", "base64": "YWI=", "bytes": 2}),
    "range": (range(3), [0, 1, 2]),
    "deque": (collections.deque([1, {2}]), [1, [2]]),
    "array": (array.array("i", [1, 2]), [1, 2]),
    "generator": ((each for each in (1, Colour.RED)), [1, "red"]),
    "views": ([{1: 2}.keys(), {1: 2}.values(), {1: 2}.items()], [[1], [2], [[1, 2]]]),
    "iterators": ([iter([1]), zip("a", [1], strict=True), map(str, [1])], [[1], [["a", 1]], ["1"]]),
    "mapping": (types.MappingProxyType({1: DAY}), {"1": "2026-01-02"}),
    "chain": (collections.ChainMap({"a": 1}), {"a": 1}),
    "user dict": (collections.UserDict(a=1), {"a": 1}),
}


@pytest.mark.parametrize("kind", OPENED)
def test_an_object_of_a_known_class_becomes_its_content(kind: str) -> None:
    value, seen = OPENED[kind]
    assert plain({"value": value, "beside": [1, None, "text", 1.5]}) == (
        {"value": seen, "beside": [1, None, "text", 1.5]},
        [],
    )


def test_keys_of_known_kinds_are_text() -> None:
    value = {Colour.RED: 1, DAY: 2, uuid.UUID(int=1): 3, decimal.Decimal("1.0"): 4, pathlib.PurePosixPath("a"): 5}
    found, warnings = plain(value)
    assert list(found) == ["red", "2026-01-02", "00000000-0000-0000-0000-000000000001", "1.0", "a"]
    assert warnings == []


@pytest.mark.slow
@given(st.binary(max_size=1000))
def test_any_bytes_can_be_read_back(data: bytes) -> None:
    import base64

    found, _ = plain([data])
    assert base64.b64decode(found[0]["base64"]) == data
    assert found[0]["bytes"] == len(data)


@pytest.mark.slow
@given(st.timedeltas())
def test_any_duration_is_one(duration: datetime.timedelta) -> None:
    text = plain([duration])[0][0]
    days, _, seconds = text.lstrip("-P").removesuffix("S").partition("DT")
    sign = -1 if text.startswith("-") else 1
    whole, _, fraction = seconds.partition(".")
    read = datetime.timedelta(int(days), int(whole), int((fraction + "000000")[:6]))
    assert read * sign == duration


LEAVES: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=20)
    | st.dates()
    | st.datetimes()
    | st.decimals()
    | st.uuids()
    | st.fractions()
    | st.sampled_from([Colour.RED, Level.LOW, object(), range(3), types, len, NotImplemented])
)
KEYS: Final = st.text() | st.integers() | st.dates() | st.none() | st.floats() | st.tuples(st.integers())
ANY: Final = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(KEYS, inner)
        | st.tuples(inner, inner)
        | st.builds(Point, x=st.integers(), inner=inner)
        | st.lists(inner).map(collections.deque)
        | st.lists(inner).map(iter)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(ANY)
def test_any_value_becomes_json(value: object) -> None:
    text, warnings = values.serialise(value, LIMIT)
    json.loads(text, parse_constant=_refuse)
    assert len(warnings) <= 20


def _refuse(*_: object) -> NoReturn:
    raise SystemExit("asked")


def test_an_object_that_holds_itself_is_named() -> None:
    point = Point(1)
    point.inner = {"again": point}
    found, warnings = plain(point)
    assert found == {"x": 1, "inner": {"again": {"repr": "<cycle>", "type": "note"}}}
    assert warnings == ["the value contains itself; the cycle is not followed"]


def test_objects_in_objects_are_followed_as_deep_as_anything() -> None:
    point = Point(0)
    for number in range(5000):
        point = Point(number, point)
    found, warnings = plain(point)
    assert "nests deeper" in warnings[0]
    depth = 0
    while "x" in found:
        depth, found = depth + 1, found["inner"]
    assert depth == values.MAX_DEPTH
    while point is not None:  # let go of it level by level
        point = point.inner


def test_an_endless_iterator_is_over_the_limit() -> None:
    for endless in (itertools.count(), iter(lambda: 1, 2), (number for number in itertools.count())):
        wrapped = map(str, endless)
        assert len(values.serialise([wrapped], 10_000)[0]) > 10_000


def test_bytes_that_cannot_fit_are_not_written_out() -> None:
    assert len(values.serialise({"a": bytes(50 << 20)}, LIMIT)[0]) > LIMIT


def _claims(module: str, name: str, **members: Any) -> Any:
    """Return an object of a class that claims another name."""
    return type(name, (), {"__module__": module, **members})()


class _Wrapping:
    """An object whose content is another object of the class, and so on."""

    __dataclass_fields__: Final = {"again": None}

    @property
    def again(self) -> object:
        return _Wrapping()


CLAIMED: Final = [(module, name) for module, name in objects._KINDS if (module and "." in module) or module == "numpy"]


@pytest.mark.parametrize(("module", "name"), CLAIMED)
def test_an_object_that_pretends_a_known_class_is_shown(module: str, name: str) -> None:
    found, _ = plain([_claims(module, name, __repr__=lambda _: "<shown>"), 1])
    assert found in ([{"repr": "<shown>", "type": name}, 1], [None, 1])


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, RecursionError, MemoryError, GeneratorExit])
def test_an_object_that_raises_is_shown(raised: type[BaseException]) -> None:
    def refuse(*_: object) -> NoReturn:
        raise raised

    liar = _claims("pydantic.main", "BaseModel", model_dump=refuse, __repr__=lambda _: "<shown>")
    assert plain([liar, 1])[0] == [{"repr": "<shown>", "type": "BaseModel"}, 1]


def test_a_kind_that_opens_to_itself_is_followed_only_so_far() -> None:
    liar = _claims("pydantic.main", "BaseModel")
    type(liar).model_dump = lambda self: type(self)()
    _, warnings = plain(liar)
    assert any("nests deeper" in each for each in warnings)
    assert any("nests deeper" in each for each in plain(_Wrapping())[1])


def test_classes_and_their_metaclasses_are_not_asked() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise SystemExit(name)

    found, _ = plain([Meta("Odd", (), {"__repr__": lambda _: "<odd>"})(), 1])
    assert found == [{"repr": "<odd>", "type": "Odd"}, 1]


def test_a_mapping_that_changes_during_reading_is_shown() -> None:
    class Changing(collections.UserDict[int, int]):
        def __getitem__(self, key: int) -> int:
            self.data[len(self.data)] = 1
            return 1

        def __repr__(self) -> str:
            return "<changing>"

    assert plain([Changing({0: 1}), 1])[0][1] == 1


def test_a_table_gives_as_many_rows_as_there_is_room_for() -> None:
    def part(begin: int, end: int) -> Iterator[tuple[int, str]]:
        return ((number, "x" * 100) for number in range(begin, end))

    table = objects._table([{"name": "a", "dtype": "int"}, {"name": "b", "dtype": "str"}], part, 10**9, 40_000)
    walk = values._ValueWalk(40_000)
    found = walk._table(table, 0)
    assert found["row_count"] == 10**9
    assert 100 < len(found["rows"]) < 400
    assert found["rows"][0] == [0, "x" * 100]
    assert found["rows"][-1] == [10**9 - 1, "x" * 100]
    first, last = found["first_rows"], len(found["rows"]) - found["first_rows"]
    assert abs(first - last) < 20
    assert walk.warnings == [f"only the first {first} and the last {last} of a table's 1000000000 rows are given"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 57, 58, 59, 60, 100])
def test_a_table_that_has_room_has_all_of_its_rows(count: int) -> None:
    table = objects._table([{"name": "a", "dtype": "int"}], lambda *part: ([n] for n in range(*part)), count, 460)
    found = values._ValueWalk(100_000)._table(table, 0)
    if "first_rows" not in found:
        assert found["rows"] == [[number] for number in range(count)]
    assert ("first_rows" in found) == (count > 59)
    assert found["row_count"] == count


class _Rows:
    """The `iloc` of a frame with a million rows."""

    def __getitem__(self, part: slice) -> types.SimpleNamespace:
        return types.SimpleNamespace(itertuples=lambda **_: ((number,) for number in range(10**6)[part]))


@pytest.mark.slow
def test_values_next_to_a_long_table_are_whole() -> None:
    frame = _claims("pandas.core.frame", "DataFrame")
    kind = type(frame)
    kind.columns = kind.dtypes = ["a"]
    kind.index = type("RangeIndex", (), {})()
    kind.__len__ = lambda _: 10**6
    kind.iloc = _Rows()
    found, warnings = plain({"frame": frame, "beside": [1, 2, 3]})
    assert found["beside"] == [1, 2, 3]
    assert found["frame"]["row_count"] == 10**6
    assert len(warnings) == 1


def test_an_image_is_left_among_the_outputs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "image-1.png").write_bytes(b"the tool's own")
    objects.leave_images_in(str(tmp_path))

    class Image:
        __module__ = "PIL.Image"
        mode, size = "RGB", (3, 2)

        def save(self, file: Any, format: str) -> None:
            file.write(b"pixels as " + format.encode())

    found, _ = plain({"plot": Image()})
    assert found["plot"] == {"$type": "image", "artifact": "image-2.png", "mime": "image/png", "width": 3, "height": 2}
    assert (tmp_path / "outputs" / "image-2.png").read_bytes() == b"pixels as PNG"
    assert (tmp_path / "outputs" / "image-1.png").read_bytes() == b"the tool's own"
