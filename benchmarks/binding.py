"""The cost of binding: checking and converting the arguments of a call.

The first call of a source builds the model that later calls use, so the benchmark measures the two apart. The floor is
`json.dumps` and `json.loads` of the same arguments, a copy that checks nothing. Binding never waits, so the benchmark
counts processor time; one measurement is a thousand repetitions.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.alone import run_alone
from benchmarks.report import Report, at_most, build_report, spread
from benchmarks.turns import Case, take_turns
from sandbox.tools import bind, read_tool

_TIMES: Final = 1000
_FIELDS: Final = (
    "a: int, b: str, c: float, d: bool, e: list[int], f: dict[str, str], g: str = 'x', h: int = 3, "
    "i: str | None = None, j: list[str] | None = None"
)
_TOOL: Final = f"def tool({_FIELDS}) -> int:\n    return 1\n"
_GIVEN: Final[dict[str, Any]] = {
    "a": 1,
    "b": "text",
    "c": 2.5,
    "d": True,
    "e": [1, 2, 3],
    "f": {"key": "value"},
    "g": "y",
    "h": 4,
    "i": "z",
    "j": ["a", "b"],
}
_AS_TEXT: Final = {**_GIVEN, "a": "1", "c": "2.5", "d": "true", "e": "[1, 2, 3]", "h": "4"}
_NESTED: Final = (
    "from dataclasses import dataclass\n"
    "@dataclass\nclass Seat:\n    row: int\n    place: str\n    paid: bool = False\n"
    "def tool(seats: list[Seat]) -> int:\n    return 1\n"
)
_SEATS: Final = {"seats": [{"row": row, "place": "a", "paid": True} for row in range(10)]}
_numbers = itertools.count()


def measure(*, is_quick: bool) -> Report:
    """Measure binding, first and later calls."""
    tool, nested = read_tool(_TOOL), read_tool(_NESTED)
    times = _TIMES // 10 if is_quick else _TIMES
    cases = {
        "10 fields": _case(lambda: bind(tool, _GIVEN), times=times),
        "10 fields, five of them text to convert": _case(lambda: bind(tool, _AS_TEXT), times=times),
        "10 objects of a dataclass": _case(lambda: bind(nested, _SEATS), times=times),
        "10 fields, the first call of a source": _case(_bind_new, times=max(times // 100, 1)),
    }
    floor = {"a copy through JSON": _case(lambda: json.loads(json.dumps(_GIVEN)), times=times)}
    found = asyncio.run(take_turns({**cases, **floor}, rounds=2 if is_quick else 50))
    spreads = {name: spread(values, unit="us") for name, values in found.items()}
    return build_report(
        "binding",
        cases={name: spreads[name] for name in cases},
        floors={name: spreads[name] for name in floor},
        goals=[at_most("microseconds of 10 fields", spreads["10 fields"].p50, 50)],
    )


def _bind_new() -> None:
    assert not bind(read_tool(f"{_TOOL}# {next(_numbers)}\n"), _GIVEN).problems


def _case(work: Callable[[], object], *, times: int) -> Case:
    async def measured() -> float:
        begun = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - begun) * 1_000_000 / times

    return measured


if __name__ == "__main__":
    run_alone(measure)
