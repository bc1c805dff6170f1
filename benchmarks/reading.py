"""What reading a tool costs: its check with its schema, the largest source there may be, and a thousand tools.

Every source is a new one, so nothing is remembered; what a remembered one costs is measured beside. The floor is what
Python's own parser takes for the same text. Reading waits for nothing, so all of it is time of one processor.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.report import Report, at_most, build_report, spread
from benchmarks.turns import Case, take_turns
from sandbox.errors import SourceError
from sandbox.tools.check import check_source
from sandbox.tools.decoding import MAX_SOURCE_BYTES
from sandbox.tools.schema import tool_schema

_HEAD: Final = '''import json
from typing import Literal


def search(
    query: str,
    limit: int = 10,
    kind: Literal["page", "image"] = "page",
    tags: list[str] | None = None,
    options: dict[str, int] | None = None,
) -> dict:
    """Search for pages.

    What is found is listed by how well it fits.

    Args:
        query: What to look for.
        limit: How many at most.
        kind: What kind of thing.
        tags: Only what has all of these.
        options: What the index takes beside.

    Returns:
        What was found, by its place.
    """
'''
_LINES: Final = "    found = index.search(query, limit=limit)  # and so on\n"
_TOOL: Final = _HEAD + _LINES * (199 - _HEAD.count("\n")) + "    return {}\n"
_USUAL: Final = _HEAD + _LINES * (39 - _HEAD.count("\n")) + "    return {}\n"
_LARGEST: Final = "# a line of a long comment, of which there are many\n"
_numbers = itertools.count()


def measure(*, is_quick: bool) -> Report:
    """Run it."""
    rounds, tools = (5, 50) if is_quick else (100, 1000)
    quick = {
        "check and schema, 200 lines": _case(lambda: _read(_new(_TOOL))),
        "the same, remembered": _case(lambda: _read(_TOOL)),
        "ast.parse": _case(lambda: ast.parse(_TOOL)),
    }
    found = asyncio.run(take_turns(quick, rounds=rounds))
    largest = _LARGEST * ((MAX_SOURCE_BYTES - len(_TOOL) - 64) // len(_LARGEST)) + _TOOL
    rare = {
        "5 MiB": _case(lambda: _read(_new(largest))),
        f"{tools} tools of 40 lines": _case(lambda: _read_many(tools)),
    }
    found |= asyncio.run(take_turns(rare, rounds=1 if is_quick else 3, warm_up_rounds=0))
    spreads = {name: spread(values) for name, values in found.items()}
    cases = {name: each for name, each in spreads.items() if name != "ast.parse"}
    return build_report(
        "reading",
        cases=cases,
        floors={"ast.parse": spreads["ast.parse"]},
        goals=[
            at_most("milliseconds of check and schema, 200 lines", cases["check and schema, 200 lines"].p50, 5),
            at_most("milliseconds of 5 MiB", cases["5 MiB"].p50, 2000),
            at_most(f"milliseconds of {tools} tools of 40 lines", cases[f"{tools} tools of 40 lines"].p50, 3 * tools),
        ],
    )


def _new(source: str) -> str:
    """The same source as nobody has seen it."""
    return f"{source}# {next(_numbers)}\n"


def _read(source: str) -> None:
    try:
        assert check_source(source).ok
        tool_schema(source)
    except SourceError as refusal:
        raise AssertionError(f"it is to be read: {refusal}") from refusal


def _read_many(count: int) -> None:
    for _ in range(count):
        _read(_new(_USUAL))


def _case(work: Callable[[], object]) -> Case:
    async def measured() -> float:
        begun = time.process_time()
        work()
        return (time.process_time() - begun) * 1000

    return measured


if __name__ == "__main__":
    run_alone(measure)
