"""Syntax of Python 3.12 for an older Python to parse: `type X = …`, and type parameters in brackets.

A tool may be written for a newer Python than the engine runs on. A `type` statement says the same as an assignment, and
the brackets of `class Page[T]:` are taken out of the text; every line stays where it is. What stood in them is put into
the syntax tree as newer Pythons do, in `type_params`, each parameter as an `ast.arg` with its bound for annotation:
the grammar of both is the same.

Whatever else is newer (an f-string that has its own quotes inside, `except A, B:`) is not read, and no guess is made at
what it would mean. Where the tool says that it requires a newer Python, the fault is told as what it may be.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from typing import Final

_BRACKET = r"\[(?P<inner>(?:[^\[\]]|\[[^\[\]]{0,200}\]){1,300})\]"
_GENERIC = re.compile(
    rf"^(?P<before>[ \t]*(?:async[ \t]+def|def|class|type)[ \t]+(?P<name>[^\W\d]\w*)[ \t]*){_BRACKET}", re.MULTILINE
)
_TYPE_STATEMENT = re.compile(
    r"^(?P<indent>[ \t]*)type(?P<gap>[ \t]+)(?P<name>[^\W\d]\w*)(?=(?:[ \t]|\\\n)*=[^=])", re.MULTILINE
)

_LEAST: Final = re.compile(r"(?:>=?|==|~=)\s{0,9}(\d{1,4})(?:\.(\d{1,4}))?")
"""What of a `requires-python` says how new a Python is to be."""


def requires_newer(requires_python: str | None) -> bool:
    """Whether a tool says that it is for a newer Python than this one."""
    least = _LEAST.findall(requires_python or "")
    return any((int(major), int(minor or 0)) > sys.version_info[:2] for major, minor in least)


def parse_newer(text: str, parse: Callable[[str], ast.Module]) -> ast.Module | None:
    """The tree of a text that only a newer Python parses; None where nothing of it is known to be newer."""
    if sys.version_info >= (3, 12):
        return None
    bare, parameters = _without_brackets(text)
    older = _TYPE_STATEMENT.sub(r"\g<indent>\g<name>\g<gap>    ", bare)
    if older == text:
        return None
    module = parse(older)
    for node in ast.walk(module) if parameters else ():
        inner = parameters.get((getattr(node, "lineno", 0), _name_of(node)))
        if inner is not None:
            node.type_params = _parsed(inner, parse)  # type: ignore[attr-defined]
    return module


def _without_brackets(text: str) -> tuple[str, dict[tuple[int, str], str]]:
    """The text with blanks for type parameters, and these, by the line and the name of what they belong to."""
    parameters: dict[tuple[int, str], str] = {}
    pieces: list[str] = []
    line, end = 1, 0
    for found in _GENERIC.finditer(text):
        line += text.count("\n", end, found.start())
        parameters[line, found["name"]] = found["inner"]
        bracket = text[found.end("before") : found.end()]
        pieces += [text[end : found.end("before")], re.sub(r"[^\n]", " ", bracket).replace("\n", "\\\n")]
        line += text.count("\n", found.start(), found.end())
        end = found.end()
    return "".join([*pieces, text[end:]]), parameters


def _name_of(node: ast.AST) -> str:
    """What a statement gives a name to."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else getattr(node, "name", "") or ""


def _parsed(inner: str, parse: Callable[[str], ast.Module]) -> list[ast.arg]:
    (function,) = parse(f"def _(\n{inner}\n): ...").body
    assert isinstance(function, ast.FunctionDef)
    listed = (*function.args.args, function.args.vararg, *function.args.kwonlyargs, function.args.kwarg)
    return [each for each in listed if each is not None]
