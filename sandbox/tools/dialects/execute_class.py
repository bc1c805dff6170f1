"""Dialect *class with execute*: a class deriving from `BaseTool` with `name`, `description` and `execute(args)`.

The attributes are literals in the class (or properties that return one), possibly in a base of the same source. If
`execute` takes one parameter apart from the injected parameters, that parameter is the dict of all arguments; otherwise
its parameters are the tool's. `parameters`, `input_schema` or `args_schema` is the tool's schema as a literal, or a
model of this source.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from sandbox.tools.dialects.candidate import Candidate, output_type, text_or_none
from sandbox.tools.dialects.method_class import methods_of
from sandbox.tools.source import Function, Source
from sandbox.tools.syntax.scope import assignments, last_name
from sandbox.tools.tool import machine_name

_SCHEMAS: Final = ("parameters", "input_schema", "args_schema")
_OUTPUTS: Final = {
    "output_semantic_type": "output_type",
    "stdout_semantic_type": "stdout_type",
    "stderr_semantic_type": "stderr_type",
}


def read_execute_classes(source: Source) -> list[Candidate]:
    """Return every public class with an `execute`."""
    candidates = []
    for owner in source.classes.values():
        if owner.name.startswith("_") or not source.derives_from(owner, "BaseTool"):
            continue
        execute = _method(source, owner, "execute")
        if execute is not None and not _is_abstract(execute):
            candidates.append(_candidate(source, owner, execute))
    return candidates


def _candidate(source: Source, owner: ast.ClassDef, execute: Function) -> Candidate:
    nodes = [node for each in _SCHEMAS if (node := _attribute(source, owner, each)) is not None]
    model = next((node for node in nodes if isinstance(node, ast.Name) and node.id in source.classes), None)
    schemas = [source.literal(node, of=f"the schema of {owner.name}") for node in nodes if node is not model]
    return Candidate(
        entry=owner.name,
        name=text_or_none(_literal_attribute(source, owner, "name")) or machine_name(owner.name),
        kind="execute",
        names=(owner.name,),
        node=owner,
        function=execute,
        is_bound=not any(last_name(each) == "staticmethod" for each in execute.decorator_list),
        owner=owner,
        description=text_or_none(_literal_attribute(source, owner, "description")),
        schema=next((each for each in schemas if isinstance(each, dict)), None),
        arguments=model,
        settings=_settings(source, owner),
    )


def _settings(source: Source, owner: ast.ClassDef) -> dict[str, str]:
    """Return the declared types of the outputs."""
    nodes = {name: _attribute(source, owner, attribute) for attribute, name in _OUTPUTS.items()}
    said = {name: output_type(source, node) for name, node in nodes.items() if node is not None}
    return {name: spelled for name, spelled in said.items() if spelled is not None}


def _method(source: Source, owner: ast.ClassDef, name: str) -> Function | None:
    return next(
        (method for each in source.line_of_bases(owner) for method in methods_of(each) if method.name == name), None
    )


def _is_abstract(method: Function) -> bool:
    return any(last_name(each) == "abstractmethod" for each in method.decorator_list)


def _literal_attribute(source: Source, owner: ast.ClassDef, name: str) -> Any:
    """Return the plain value that a class gives a name; None when it gives none."""
    node = _attribute(source, owner, name)
    return None if node is None else source.literal(node, of=f"{owner.name}.{name}")


def _attribute(source: Source, owner: ast.ClassDef, name: str) -> ast.expr | None:
    """Return the expression that a class gives a name, or that a property of this name returns."""
    for each in source.line_of_bases(owner):
        for statement in reversed(each.body):
            if isinstance(statement, Function) and statement.name == name:
                return _returned(statement)
            for target, value in assignments(statement):
                if target == name:
                    return value
    return None


def _returned(function: Function) -> ast.expr | None:
    returns = [each for each in function.body if isinstance(each, ast.Return)]
    return returns[0].value if len(returns) == 1 else None
