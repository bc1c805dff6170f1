"""Dialect *class with execute*: a class deriving from `BaseTool` with `name`, `description` and `execute(args)`.

The attributes are literals in the class (or properties that return one), possibly in a base of the same source. When
`execute` takes one parameter beside what is injected, that is the dict of all arguments; otherwise its parameters are
the tool's. `parameters`, `input_schema` or `args_schema` as a literal is the tool's schema.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from sandbox.tools.dialects.candidate import Candidate
from sandbox.tools.dialects.method_class import methods_of
from sandbox.tools.names import machine_name
from sandbox.tools.names_in_source import last_name
from sandbox.tools.scope import assigned
from sandbox.tools.source import Function, Source

_SCHEMAS: Final = ("parameters", "input_schema", "args_schema")
SETTINGS: Final = ("output_semantic_type", "stdout_semantic_type", "stderr_semantic_type")


def read_execute_classes(source: Source) -> list[Candidate]:
    """Every public class with an `execute`."""
    candidates = []
    for owner in source.classes.values():
        if owner.name.startswith("_") or not source.derives_from(owner, "BaseTool"):
            continue
        execute = _method(source, owner, "execute")
        if execute is not None and not _is_abstract(execute):
            candidates.append(_candidate(source, owner, execute))
    return candidates


def _candidate(source: Source, owner: ast.ClassDef, execute: Function) -> Candidate:
    name, description = _attribute(source, owner, "name"), _attribute(source, owner, "description")
    schemas = [_attribute(source, owner, each) for each in _SCHEMAS]
    return Candidate(
        entry=owner.name,
        name=name if isinstance(name, str) and name else machine_name(owner.name),
        kind="execute",
        names=(owner.name,),
        node=owner,
        function=execute,
        is_bound=not any(last_name(each) == "staticmethod" for each in execute.decorator_list),
        owner=owner,
        description=description if isinstance(description, str) and description.strip() else None,
        schema=next((each for each in schemas if isinstance(each, dict)), None),
        settings={each: _attribute(source, owner, each) for each in SETTINGS},
    )


def _method(source: Source, owner: ast.ClassDef, name: str) -> Function | None:
    return next(
        (method for each in source.line_of_bases(owner) for method in methods_of(each) if method.name == name), None
    )


def _is_abstract(method: Function) -> bool:
    return any(last_name(each) == "abstractmethod" for each in method.decorator_list)


def _attribute(source: Source, owner: ast.ClassDef, name: str) -> Any:
    """What a class says under a name; None when it says nothing, or something that only running it tells."""
    for each in source.line_of_bases(owner):
        for statement in reversed(each.body):
            if isinstance(statement, Function) and statement.name == name:
                return _returned(source, statement)
            for target, value in assigned(statement):
                if target == name:
                    return _plain(source, value, of=f"{each.name}.{name}")
    return None


def _plain(source: Source, value: ast.expr, *, of: str) -> Any:
    """A class or a member of an enum is no literal, and yet no mistake here."""
    if isinstance(value, ast.Attribute):
        return value.attr
    if isinstance(value, ast.Name) and value.id not in source.constants:
        return None
    return source.literal(value, of=of)


def _returned(source: Source, function: Function) -> Any:
    returns = [each for each in function.body if isinstance(each, ast.Return)]
    if len(returns) != 1 or returns[0].value is None:
        return None
    return _plain(source, returns[0].value, of=function.name)
