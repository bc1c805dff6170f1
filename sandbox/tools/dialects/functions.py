"""Dialect *function*: a `def` or `async def` directly in the module, with annotations and a docstring.

A function marked with `@tool` is the tool; without such a mark every public function is. A function inside an `if` or a
`try` is not, because only running the module shows whether it exists.

Other frameworks have a mark of the same name with other arguments; of these, `args_schema` is read: the model of this
source that declares all arguments.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from sandbox.tools.dialects.candidate import Candidate, call_values, output_type, text_or_none
from sandbox.tools.source import Function, Source
from sandbox.tools.syntax.scope import last_name

_MARK: Final = "tool"
_TEXTS: Final = ("name", "description")
_ARGUMENTS: Final = "args_schema"
_SETTINGS: Final = ("output_type", "return_char_limit", "return_token_limit", "enable_parallel_execution")


def read_functions(source: Source) -> list[Candidate]:
    """Return every public function."""
    return [_candidate(source, each) for each in source.functions.values() if not each.name.startswith("_")]


def _candidate(source: Source, function: Function) -> Candidate:
    mark = next((each for each in function.decorator_list if last_name(each) == _MARK), None)
    said = _read_mark(source, mark) if mark is not None else {}
    model = said.get(_ARGUMENTS)
    return Candidate(
        entry=function.name,
        name=text_or_none(said.get("name")) or function.name,
        kind="function",
        names=(function.name,),
        node=function,
        function=function,
        description=text_or_none(said.get("description")),
        arguments=model if isinstance(model, ast.Name) else None,
        is_marked=mark is not None,
        settings={key: said[key] for key in _SETTINGS if said.get(key) is not None},
    )


def _read_mark(source: Source, mark: ast.expr) -> dict[str, Any]:
    """Return the decorator's own arguments; the one without a name is the tool's name."""
    if not isinstance(mark, ast.Call):
        return {}
    said = call_values(mark, lambda keyword, node: _value(source, keyword, node))
    if mark.args:
        said.setdefault("name", _value(source, "name", mark.args[0]))
    return said


def _value(source: Source, keyword: str, node: ast.expr) -> Any:
    if keyword == _ARGUMENTS:
        return node if isinstance(node, ast.Name) and node.id in source.classes else None
    if keyword == "output_type":
        return output_type(source, node)
    return source.literal(node, of=f"@tool's {keyword}") if keyword in ("**", *_TEXTS, *_SETTINGS) else None
