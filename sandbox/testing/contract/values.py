"""The arguments of a tool, and its value."""

from __future__ import annotations

import json
from typing import Any, Final

from sandbox.outcome import Status
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import Subject

ECHO: Final = "def echo(value):\n    return value\n"
MEASURE: Final = "def measure(text: str) -> list:\n    return [len(text), text[-3:]]\n"

_EVERY_TYPE: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    2**53 + 1,
    -(2**63),
    0.1,
    -2.5e-300,
    1.7e308,
    "",
    "text",
    [],
    {},
    [1, [2, [3, [None]]]],
    {"a": {"b": [True, {"c": ""}]}, "": 0},
)
_EVERY_PLANE: Final = "é ß ﬁ 漢字 עברית 😀 👨\u200d👩\u200d👧 \0 \x1b[31m \u2028 \ufeff \uffff \U0010ffff \r\n\t"


async def check_every_json_type_makes_the_round_trip(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(ECHO, {"value": list(_EVERY_TYPE)}))
    expect.same(json.dumps(outcome.value), json.dumps(list(_EVERY_TYPE)))


async def check_text_of_every_plane_makes_the_round_trip(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(ECHO, {"value": {_EVERY_PLANE: _EVERY_PLANE}}))
    expect.same(outcome.value, {_EVERY_PLANE: _EVERY_PLANE})


async def check_half_a_surrogate_pair_is_refused_as_an_argument(subject: Subject) -> None:
    outcome = expect.ended(await subject.sandbox.run(ECHO, {"value": "\ud83d"}), Status.INVALID)
    expect.same([problem.path for problem in outcome.problems], ["value"])


async def check_half_a_surrogate_pair_is_replaced_with_a_warning(subject: Subject) -> None:
    source = "def half() -> str:\n    return 'a\\ud83db'\n"
    outcome = expect.ok(await subject.sandbox.run(source))
    expect.same(outcome.value, "a\ufffdb")
    expect.that(outcome.warnings, "nothing was said about it")


async def check_an_argument_of_a_mebibyte_arrives_whole(subject: Subject) -> None:
    text = "x" * (1 << 20) + "end"
    outcome = expect.ok(await subject.sandbox.run(MEASURE, {"text": text}))
    expect.same(outcome.value, [len(text), "end"])


async def check_a_value_of_a_mebibyte_arrives_whole(subject: Subject) -> None:
    value = ["é" * 1000] * 350
    outcome = expect.ok(await subject.sandbox.run(ECHO, {"value": value}))
    expect.same(outcome.value, value)


async def check_a_tool_that_returns_nothing_gives_null(subject: Subject) -> None:
    expect.same(expect.ok(await subject.sandbox.run("def nothing():\n    pass\n")).value, None)


async def check_a_value_beyond_json_is_converted_with_a_warning(subject: Subject) -> None:
    source = "def odd():\n    return {'nan': float('nan'), 'tuple': (1, 2), 'object': object(), 3: 'key'}\n"
    outcome = expect.ok(await subject.sandbox.run(source))
    value: Any = outcome.value
    expect.same([value["nan"], value["tuple"], value["object"]["type"], value["3"]], [None, [1, 2], "object", "key"])
    expect.that(outcome.warnings, "nothing was said about it")


async def check_a_coroutine_function_is_awaited(subject: Subject) -> None:
    source = "import asyncio\n\nasync def later(n: int) -> int:\n    await asyncio.sleep(0)\n    return n + 1\n"
    expect.same(expect.ok(await subject.sandbox.run(source, {"n": 1})).value, 2)


async def check_a_generator_gives_a_list(subject: Subject) -> None:
    source = "def squares(n: int):\n    for i in range(n):\n        yield i * i\n"
    expect.same(expect.ok(await subject.sandbox.run(source, {"n": 4})).value, [0, 1, 4, 9])


async def check_an_async_generator_gives_a_list(subject: Subject) -> None:
    source = "async def counts(n: int):\n    for i in range(n):\n        yield i\n"
    expect.same(expect.ok(await subject.sandbox.run(source, {"n": 3})).value, [0, 1, 2])


async def check_parameters_of_every_kind_get_their_arguments(subject: Subject) -> None:
    source = "def kinds(a, /, b, *, c=3, **rest):\n    return [a, b, c, rest]\n"
    outcome = expect.ok(await subject.sandbox.run(source, {"a": 1, "b": 2, "d": 4}))
    expect.same(outcome.value, [1, 2, 3, {"d": 4}])


async def check_each_argument_that_does_not_fit_is_reported(subject: Subject) -> None:
    source = "def add(a: int, b: int) -> int:\n    return a + b\n"
    outcome = expect.ended(await subject.sandbox.run(source, {"a": "many", "c": 1}), Status.INVALID)
    expect.same(sorted(problem.path for problem in outcome.problems), ["a", "b", "c"])
    expect.same(outcome.receipt, None, what="the receipt of a call that never ran")
