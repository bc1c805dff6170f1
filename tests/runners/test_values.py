"""A tool's value becomes JSON that the engine can read, whatever the value is."""

from __future__ import annotations

import enum
import json
import math
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from call import values
from sandbox.protocol.messages import ValueReply, parse_reply
from tests.processor_time import within

LIMIT: Final = 1 << 20


@pytest.fixture
def frames() -> Iterator[None]:
    """Allow as many frames as a call does."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4000)
    yield
    sys.setrecursionlimit(limit)


def plain(value: object) -> tuple[Any, list[str]]:
    """Return the value as the engine reads it, and the warnings."""
    text, warnings = values.serialise(value, LIMIT)
    reply = parse_reply(b'{"kind": "value", "value": %s, "warnings": []}' % text.encode("ascii"))
    assert isinstance(reply, ValueReply)
    return reply.value, warnings


def _refuse(*_: object) -> NoReturn:
    raise SystemExit("asked")


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(JSON)
def test_plain_json_is_unchanged(value: object) -> None:
    assert plain(value) == (value, [])


def test_tuples_are_arrays_and_keys_are_text() -> None:
    point = namedtuple("point", "x y")
    value = {2: (1, 2), None: point(3, 4), True: [], 1.5: OrderedDict(a=1)}
    assert plain(value) == ({"2": [1, 2], "null": [3, 4], "true": [], "1.5": {"a": 1}}, [])
    assert plain({**value, 3: {1}}) == ({"2": [1, 2], "null": [3, 4], "true": [], "1.5": {"a": 1}, "3": [1]}, [])


def test_sets_are_arrays() -> None:
    found, warnings = plain({"set": {1, 2, 3}, "frozen": frozenset("a")})
    assert (sorted(found["set"]), found["frozen"], warnings) == ([1, 2, 3], ["a"], [])


def test_nan_becomes_null_and_the_rest_stays() -> None:
    found, warnings = plain({"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.5})
    assert found == {"a": None, "b": None, "c": None, "d": 1.5}
    assert warnings == ["nan is given as null", "inf is given as null", "-inf is given as null"]


def test_a_negative_zero_stays_one() -> None:
    found, _ = plain([-0.0, {1}])
    assert math.copysign(1, found[0]) == -1


def test_keys_that_are_no_numbers_are_text() -> None:
    found, _ = plain({math.nan: 1, math.inf: 2, 10**5000: 3, (1, 2): 4})
    assert found == {"nan": 1, "inf": 2, hex(10**5000): 3, "(1, 2)": 4}


def test_two_keys_with_the_same_text_are_reported() -> None:
    found, warnings = plain({1: "a", "1": "b", "c": {1}})
    assert found == {"1": "b", "c": [1]}
    assert warnings == ["two keys are the same as text; the value of the last is given"]


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_read() -> None:
    found, warnings = plain(["\ud800", "a\udfff", "\ud83d\ude00", {"\udc00": 1}])
    assert found == ["\ufffd", "a\ufffd", "\U0001f600", {"\ufffd": 1}]
    assert warnings == ["half a surrogate pair is given as U+FFFD"]


def test_text_that_only_looks_like_a_surrogate_is_left_alone() -> None:
    assert plain(["\\ud800", '"]]][[[{{'])[0] == ["\\ud800", '"]]][[[{{']


@pytest.mark.parametrize("digits", [4200, 4201, 5000, 10**5])
def test_an_integer_too_long_to_be_read_is_text(digits: int) -> None:
    number = 10**digits - 1
    found, warnings = plain([number, -number])
    if digits <= 4200:
        assert (found, warnings) == ([number, -number], [])
    else:
        assert [int(text, 16) for text in found] == [number, -number]
        assert warnings == [f"an integer of {number.bit_length()} bits is given as hexadecimal text"]


@pytest.mark.slow
def test_many_long_numbers_are_looked_through_once() -> None:
    numbers = [10**400] * 20_000
    with within(2):
        text, _ = values.serialise(numbers, 16 * LIMIT)
    assert json.loads(text) == numbers


def test_long_runs_of_digits_in_text_stay_text() -> None:
    assert plain("1" * 10_000) == ("1" * 10_000, [])


def test_objects_without_json_form_are_shown() -> None:
    found, warnings = plain({"z": 1 + 2j, "n": 1})
    assert found == {"z": {"repr": "(1+2j)", "type": "complex"}, "n": 1}
    assert warnings == ["complex has no JSON form; its repr is given"]


def test_a_cycle_is_named_and_not_followed() -> None:
    ring: list[Any] = [1]
    ring.append({"again": ring})
    found, warnings = plain(ring)
    assert found == [1, {"again": {"repr": "<cycle>", "type": "note"}}]
    assert warnings == ["the value contains itself; the cycle is not followed"]


def test_the_same_thing_twice_is_no_cycle() -> None:
    shared = {1, 2}
    assert plain([shared, shared])[1] == []


@pytest.mark.parametrize("depth", [values.MAX_DEPTH, values.MAX_DEPTH + 1, 990, 10**4])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_depth_is_bounded(depth: int, kind: str, frames: None) -> None:
    value: Any = None
    for _ in range(depth):
        value = [value] if kind == "list" else {"in": value}
    found, warnings = plain(value)
    assert _depth(found) <= values.MAX_DEPTH + 1
    assert bool(warnings) is (depth > values.MAX_DEPTH)
    while value is not None:  # let go of it level by level
        value = value[0] if kind == "list" else value["in"]


def _depth(value: Any) -> int:
    depth = 0
    while value:
        depth, value = depth + 1, next(iter(value.values())) if isinstance(value, dict) else value[0]
        if value == "<deeper>":
            break
    return depth


def test_brackets_in_text_are_no_depth() -> None:
    value = ["[" * 1000, '"\\[[[' * 1000, {"{" * 300: []}]
    assert plain(value) == (value, [])


@pytest.mark.slow
def test_a_million_keys_are_read() -> None:
    value = {str(number): [number] for number in range(1_000_000)}
    text, warnings = values.serialise(value, 1 << 30)
    assert (json.loads(text) == value, warnings) == (True, [])


def test_a_value_over_the_limit_is_not_built_to_its_end() -> None:
    inner: Any = {1}
    for _ in range(12):
        inner = [inner] * 10
    text, _ = values.serialise(inner, 1000)
    assert 1000 < len(text) < 20_000


def test_warnings_are_bounded() -> None:
    kinds = [type(f"kind{number}" + "x" * 10_000, (), {}) for number in range(100)]
    _, warnings = plain([kind() for kind in kinds])
    assert len(warnings) == 20
    assert max(map(len, warnings)) < 200


class _Text(str):
    __slots__ = ()
    __str__ = __repr__ = __len__ = __iter__ = __hash__ = _refuse


class _Number(int):
    __str__ = __repr__ = __int__ = __index__ = __float__ = bit_length = _refuse


class _Real(float):
    __str__ = __repr__ = __float__ = __add__ = __pos__ = __ne__ = _refuse


class _List(list[Any]):
    __iter__ = __len__ = __getitem__ = __repr__ = _refuse


class _Tuple(tuple[Any, ...]):
    __slots__ = ()
    __iter__ = __len__ = __getitem__ = __repr__ = _refuse


class _Set(set[Any]):
    __iter__ = __len__ = __contains__ = __repr__ = _refuse


class _Dict(dict[Any, Any]):
    items = keys = __iter__ = __len__ = __getitem__ = __repr__ = _refuse


class _Lying:
    __class__ = int  # type: ignore[assignment]

    def __getattr__(self, name: str) -> NoReturn:
        raise SystemExit(name)

    __repr__ = _refuse


class _Meta(type):
    @property
    def __name__(cls) -> NoReturn:  # type: ignore[override]
        raise SystemExit("asked")


class _Nameless(metaclass=_Meta):
    def __repr__(self) -> str:
        return 5  # type: ignore[return-value]


LIARS: Final[list[tuple[object, object]]] = [
    (_Text("text"), "text"),
    (_Number(7), 7),
    (_Real(1.5), 1.5),
    (_List([1, 2]), [1, 2]),
    (_Tuple((1, 2)), [1, 2]),
    (_Set({1}), [1]),
    (_Dict(a=_Dict(b=1)), {"a": {"b": 1}}),
    (enum.IntEnum("Colour", "RED").RED, 1),  # type: ignore[attr-defined]
    (_Lying(), {"repr": "<unreadable: SystemExit>", "type": "_Lying"}),
    (_Nameless(), {"repr": "<unreadable: TypeError>", "type": "_Nameless"}),
]


@pytest.mark.parametrize(("value", "seen"), LIARS, ids=lambda value: type(value).__qualname__)
@pytest.mark.parametrize("neighbour", [None, frozenset()], ids=["alone", "next to a walked value"])
def test_a_lying_class_is_read_as_its_builtin(value: object, seen: object, neighbour: object) -> None:
    found, _ = plain([value, neighbour])
    assert found[0] == seen


def test_lying_keys_are_read_as_their_builtin() -> None:
    class Key(str):
        __slots__ = ()
        __str__ = __repr__ = _refuse

    assert plain({Key("a"): 1, _Lying(): 2})[0] == {"a": 1, "<unreadable: SystemExit>": 2}


def test_a_dict_with_other_items_is_read_as_its_content() -> None:
    class Renamed(dict[str, int]):
        def items(self) -> Any:
            return [1, 2, 3]

    assert plain(Renamed(a=1))[0] == {"a": 1}


def test_a_long_repr_is_cut() -> None:
    class Wordy:
        def __repr__(self) -> str:
            return "\ud800" + "x" * 10_000_000

    found, _ = plain(Wordy())
    assert len(found["repr"]) == 1000
