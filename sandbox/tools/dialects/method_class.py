"""Dialect *class of methods*: a class deriving from `Tool` whose methods carry `@openapi_schema` or `@method_metadata`.

Each decorated public method is one callable, `Class.method`. Existing tools derive from bases of their own in other
files, so a class with a decorated method counts whatever its bases are. The argument of `@openapi_schema` (the shape
that OpenAI takes, or bare parameters) is the schema, and has precedence over the signature.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.tools.dialects.candidate import Candidate, call_values, text_or_none
from sandbox.tools.source import Function, Source
from sandbox.tools.syntax.scope import last_name

MARKS: Final = frozenset({"openapi_schema", "method_metadata"})


def read_method_classes(source: Source) -> list[Candidate]:
    """Return every decorated public method."""
    return [
        _candidate(source, owner, method)
        for owner in source.classes.values()
        if not owner.name.startswith("_")
        for method in decorated_methods(source, owner)
        if not method.name.startswith("_")
    ]


def decorated_methods(source: Source, owner: ast.ClassDef) -> list[Function]:
    """Return the decorated methods of a class, including those inherited in this source, in the order of the source."""
    found: dict[str, Function] = {}
    for each in source.line_of_bases(owner):
        for method in methods_of(each):
            found.setdefault(method.name, method)
    marked = (each for each in found.values() if any(last_name(mark) in MARKS for mark in each.decorator_list))
    return sorted(marked, key=lambda each: each.lineno)


def methods_of(owner: ast.ClassDef) -> Iterator[Function]:
    """Yield the functions directly in a class, the later of two definitions."""
    yield from {each.name: each for each in owner.body if isinstance(each, Function)}.values()


def decorator_values(source: Source, node: ast.ClassDef | Function, name: str) -> dict[str, Any] | None:
    """Return the arguments of a decorator by keyword, the positional one under `""`; None without that decorator."""
    mark = next((each for each in node.decorator_list if last_name(each) == name), None)
    if mark is None:
        return None
    if not isinstance(mark, ast.Call):
        return {}
    values = call_values(mark, lambda keyword, value: source.literal(value, of=f"@{name}'s {keyword}"))
    if mark.args:
        values[""] = source.literal(mark.args[0], of=f"@{name}'s argument")
    return values


def _candidate(source: Source, owner: ast.ClassDef, method: Function) -> Candidate:
    said = _openapi(source, method)
    parameters = said.get("parameters")
    return Candidate(
        entry=f"{owner.name}.{method.name}",
        name=text_or_none(said.get("name")) or method.name,
        kind="method",
        names=(owner.name, method.name),
        node=method,
        function=method,
        is_bound=not any(last_name(each) == "staticmethod" for each in method.decorator_list),
        owner=owner,
        description=text_or_none(said.get("description")),
        schema=parameters if isinstance(parameters, dict) else None,
    )


def openapi_description(source: Source, method: Function) -> str | None:
    """Return the description in `@openapi_schema`."""
    return text_or_none(_openapi(source, method).get("description"))


def _openapi(source: Source, method: Function) -> Mapping[str, Any]:
    """Return the function part of what `@openapi_schema` is given."""
    values = decorator_values(source, method, "openapi_schema")
    if values is None:
        return {}
    given = values.get("", values.get("schema"))
    if not isinstance(given, dict):
        return {}
    inner = given.get("function", given)
    if not isinstance(inner, dict):
        return {}
    is_bare = "parameters" not in inner and ("properties" in inner or inner.get("type") == "object")
    return {"parameters": inner, "description": inner.get("description")} if is_bare else inner
