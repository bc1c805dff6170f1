"""A tool has its arguments rebuilt only for annotations beyond JSON; every other tool is called at once."""

from __future__ import annotations

import json

import pytest

from sandbox.engine.plan import preloadable
from sandbox.engine.request import build_request, needs_rebuilding
from sandbox.policy import load
from sandbox.spec import CallSpec
from sandbox.tools import ToolDefinition, read_tool

IMPORTS = "import datetime, typing\nfrom typing import *\nfrom enum import Enum\nfrom pathlib import Path\n"


def tool(annotation: str, *, before: str = "") -> ToolDefinition:
    return read_tool(f"{IMPORTS}{before}\ndef tool(a: {annotation}, b=1):\n    pass\n")


@pytest.mark.parametrize(
    "annotation",
    [
        "str",
        "int | None",
        "float",
        "Any",
        "object",
        "list",
        "list[str]",
        "typing.List[typing.Optional[int]]",
        "'list[str]'",
        "dict",
        "dict[str, list[int | str]]",
        "Mapping[str, Any]",
        "Sequence[bool]",
        "Literal['a', -1, None]",
        "Union[str, None]",
    ],
)
def test_json_values_are_passed_unchanged(annotation: str) -> None:
    assert not needs_rebuilding(tool(annotation))


@pytest.mark.parametrize(
    "annotation",
    [
        "Path",
        "bytes",
        "datetime.date",
        "set[int]",
        "tuple[int, int]",
        "tuple",
        "dict[int, str]",
        "list[Path]",
        "'Path | None'",
        "Annotated[int, 'a number']",
        "Literal[b'a']",
        "Unknown",
        "a.b.c",
        "1 +",
    ],
)
def test_annotations_beyond_json_are_rebuilt(annotation: str) -> None:
    if annotation == "1 +":
        assert needs_rebuilding(tool("'1 +'"))
    else:
        assert needs_rebuilding(tool(annotation))


def test_a_shadowed_name_is_rebuilt() -> None:
    assert needs_rebuilding(tool("str", before="class str: pass"))
    assert needs_rebuilding(tool("List[int]", before="from mine import List"))
    assert not needs_rebuilding(tool("t.List[int]", before="import typing as t"))


def test_a_tool_with_one_mapping_for_all_arguments_is_inspected_in_the_box() -> None:
    source = "class T(BaseTool):\n    def execute(self, args: dict): return 1\n"
    assert needs_rebuilding(read_tool(source))


def test_a_plain_function_needs_no_further_request_fields() -> None:
    plain, other = (
        json.loads(build_request(CallSpec(source=each.text), each, {"a": "x"}, load("default")))
        for each in (tool("str"), tool("Path"))
    )
    assert {"form", "rebuilds", "given", "permitted", "streams"}.isdisjoint(plain)
    assert (other["form"]["kind"], other["rebuilds"], other["permitted"]) == ("function", True, False)


def test_modules_for_rebuilding_are_preloaded() -> None:
    assert "typing" in preloadable(read_tool("def tool(a: set) -> int: pass\n"))
    assert preloadable(read_tool("def tool(a: int) -> int: pass\n")) == ()
    assert "sandbox" in preloadable(read_tool("from sandbox import tool\n@tool\ndef f(a: int): pass\n"))
