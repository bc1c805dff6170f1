"""Dialect *module*: `TOOL_NAME`, `TOOL_DESCRIPTION`, `TOOL_PARAMETERS` and `run`, or a list `TOOLS` of such tools.

`TOOL_PARAMETERS` is a JSON schema of an object, or only its properties, in which a property may say `required` itself.
In `TOOLS` everything but the handler is a literal. Only the box evaluates the handler; if the handler is the name of a
function of this source, the parameters of that function show what is injected.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from sandbox.tools.dialects.candidate import Candidate, text_or_none
from sandbox.tools.source import Source
from sandbox.tools.syntax.scope import dotted_name


def read_tool_module(source: Source) -> list[Candidate]:
    """Return the module's own tool, and those it lists."""
    return [*_own(source), *_read_tools_list(source)]


def _own(source: Source) -> list[Candidate]:
    node = source.constants.get("TOOL_NAME")
    if node is None:
        return []
    name = source.literal(node, of="TOOL_NAME")
    run = source.functions.get("run")
    if run is None:
        source.problems.add(
            "no_run",
            "the module has a TOOL_NAME and no function run",
            at=node,
            remedy="write `async def run(**kwargs)`",
        )
        return []
    described = source.constants.get("TOOL_DESCRIPTION")
    parameters = source.constants.get("TOOL_PARAMETERS")
    description = None if described is None else source.literal(described, of="TOOL_DESCRIPTION")
    schema = None if parameters is None else source.literal(parameters, of="TOOL_PARAMETERS")
    return [
        Candidate(
            entry="run",
            name=text_or_none(name) or "run",
            kind="module",
            names=("run",),
            node=run,
            function=run,
            description=text_or_none(description),
            schema=None if schema is None else object_schema(schema),
        )
    ]


def _read_tools_list(source: Source) -> list[Candidate]:
    node = source.constants.get("TOOLS")
    if node is None:
        return []
    if not isinstance(node, ast.List | ast.Tuple):
        source.problems.add("not_literal", "TOOLS is not a list that is written out", at=node, remedy="write it out")
        return []
    found = [_item(source, index, each) for index, each in enumerate(node.elts)]
    return [each for each in found if each is not None]


def _item(source: Source, index: int, node: ast.expr) -> Candidate | None:
    members = _members(node)
    name = source.literal(members["name"], of=f"the name of TOOLS[{index}]") if "name" in members else None
    if not isinstance(name, str) or not name or "handler" not in members:
        source.problems.add(
            "bad_tools_item",
            f"TOOLS[{index}] is not a dict with a name and a handler",
            at=node,
            remedy='write {"name": …, "description": …, "parameters": …, "handler": function}',
        )
        return None
    handler = dotted_name(members["handler"]) or ""
    description = members.get("description")
    parameters = members.get("parameters")
    text = None if description is None else source.literal(description, of=f"the description of TOOLS[{index}]")
    schema = None if parameters is None else source.literal(parameters, of=f"the parameters of TOOLS[{index}]")
    return Candidate(
        entry=name,
        name=name,
        kind="handler",
        names=("TOOLS", str(index), handler),
        node=source.functions.get(handler, node),
        function=source.functions.get(handler),
        description=text_or_none(text),
        schema=None if schema is None else object_schema(schema),
    )


def _members(node: ast.expr) -> dict[str, ast.expr]:
    """Return the members of a dict display, or of a call `dict(name=…)`."""
    if isinstance(node, ast.Dict):
        return {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {each.arg: each.value for each in node.keywords if each.arg}
    return {}


def object_schema(given: object) -> Mapping[str, Any] | None:
    """Return a JSON schema of an object, from one or from its properties alone."""
    if not isinstance(given, dict):
        return None
    if given.get("type") == "object" or isinstance(given.get("properties"), dict):
        return given
    properties = {
        str(name): {key: value for key, value in each.items() if key != "required" or isinstance(value, list)}
        for name, each in given.items()
        if isinstance(each, dict)
    }
    required = [str(name) for name, each in given.items() if isinstance(each, dict) and each.get("required") is True]
    return {"type": "object", "properties": properties, "required": required}
