"""The cost of reading a tool: check with risk analysis and schema, the largest possible source, a thousand tools.

The tools resemble real ones: a documented function whose body is comments, loops and calls, with 40 lines and with 200.
Every source is new, with a type of its own next to the common ones, so that no cache helps; the benchmark measures a
cached source separately. Another tool takes pydantic models that its source defines. The floor is the time of Python's
own parser for the same text. Reading never waits, so the benchmark counts processor time.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.report import Report, at_most, build_report, spread
from benchmarks.turns import Case, take_turns
from sandbox.errors import SourceError
from sandbox.tools.check import check_source
from sandbox.tools.syntax.decoding import MAX_SOURCE_BYTES
from sandbox.tools.tool_schema import tool_schema

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
_MODELS: Final = '''from pydantic import BaseModel, Field


class Item(BaseModel):
    """What is bought."""

    name: str = Field(description="Its name.", min_length=2)
    price: float = Field(ge=0)
    tags: list[str] = Field(default_factory=list)


class Order(BaseModel):
    items: list[Item]
    note: str | None = None


'''
_BLOCK: Final = """
    # Pages come one by one, and the last one is empty.
    for page in index.pages(query, size=limit):
        if not page:
            break
        found[page.name] = page.text
"""


def _write_tool(lines: int) -> str:
    """Return a tool of about that many lines."""
    blocks = (lines - _HEAD.count("\n") - 2) // _BLOCK.count("\n")
    return f"{_HEAD}    found = {{}}\n{_BLOCK * blocks}    return found\n"


_TOOL: Final = _write_tool(200)
_USUAL: Final = _write_tool(40)
_WITH_MODELS: Final = _MODELS + _TOOL.replace("query: str", "query: Order")
_LARGEST: Final = "# a line of a long comment, of which there are many\n"
_numbers = itertools.count()


def measure(*, is_quick: bool) -> Report:
    """Measure reading."""
    rounds, tools = (2, 10) if is_quick else (100, 1000)
    quick = {
        "check and schema, 200 lines": _case(lambda: _read(_make_unique(_TOOL))),
        "check and schema, 200 lines and models": _case(lambda: _read(_make_unique(_WITH_MODELS))),
        "the same, remembered": _case(lambda: _read(_TOOL)),
        "ast.parse": _case(lambda: ast.parse(_TOOL)),
    }
    found = asyncio.run(take_turns(quick, rounds=rounds))
    largest = _LARGEST * ((MAX_SOURCE_BYTES - len(_TOOL) - 64) // len(_LARGEST)) + _TOOL
    many = {f"{tools} tools of {lines} lines": source for lines, source in ((40, _USUAL), (200, _TOOL))}
    rare = {"5 MiB": _case(lambda: _read(_make_unique(largest)))}
    rare |= {name: _case(partial(_read_many, source, tools)) for name, source in many.items()}
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
            *(at_most(f"milliseconds of {name}", cases[name].p50, 3 * tools) for name in many),
        ],
    )


def _make_unique(source: str) -> str:
    """Return the same source with a type that no other source has, so that no cache knows it."""
    return source.replace('"page",', f'"page {next(_numbers)}",') + f"# {next(_numbers)}\n"


def _read(source: str) -> None:
    try:
        assert check_source(source).ok
        tool_schema(source)
    except SourceError as refusal:
        raise AssertionError(f"it is to be read: {refusal}") from refusal


def _read_many(source: str, count: int) -> None:
    for _ in range(count):
        _read(_make_unique(source))


def _case(work: Callable[[], object]) -> Case:
    async def measured() -> float:
        begun = time.process_time()
        work()
        return (time.process_time() - begun) * 1000

    return measured


if __name__ == "__main__":
    run_alone(measure)
