"""Which function of a source is the tool.

The one that was asked for; else the one named like the file; else the only public one. There is no fourth rule: a guess
such as "the last one" runs the wrong code one day.

A candidate stands directly in the module, as `def` or `async def`, and its name has no leading underscore, even when it
is asked for: the underscore is the author's word that nobody outside calls it. A function inside an `if` or a `try` of
the module is not one, because only running the module tells whether it exists. When a name is defined twice, the later
definition counts, as it does for Python.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from sandbox.errors import SourceError
from sandbox.tools.excerpt import NAME_LENGTH, excerpt, name_list

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

DEFAULT_FILENAME: Final = "tool.py"
_LONGEST_STEM: Final = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def safe_filename(filename: str) -> str:
    """A base name that can be a module's file anywhere: ASCII letters, digits and underscores, then `.py`."""
    stem = _UNSAFE.sub("_", _stem(filename))[:_LONGEST_STEM]
    return f"{stem}.py" if stem.strip("_") else DEFAULT_FILENAME


def choose_entry(module: ast.Module, *, filename: str, entry: str | None) -> Function:
    """The function to call."""
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    candidates = {name: node for name, node in functions.items() if not name.startswith("_")}
    if entry is not None:
        return _asked_for(candidates, unicodedata.normalize("NFKC", entry[: NAME_LENGTH * 16]))
    if not candidates:
        raise _nothing_to_call(module)
    named_like_file = candidates.get(_stem(filename).replace("-", "_").replace(" ", "_"))
    if named_like_file is not None:
        return named_like_file
    if len(candidates) > 1:
        raise SourceError(
            f"the source has {len(candidates)} public functions: {name_list(candidates)}",
            remedy="say which one is the entry, name it like the file, or start the others with an underscore",
        )
    return next(iter(candidates.values()))


def _asked_for(candidates: dict[str, Function], entry: str) -> Function:
    if entry in candidates:
        return candidates[entry]
    listed = f"it has {name_list(candidates)}" if candidates else "it has none"
    raise SourceError(
        f"the source has no public top-level function {excerpt(entry, NAME_LENGTH)}: {listed}",
        remedy="a function inside a class, a function, an if or a try, or with a leading underscore, is not called",
    )


def _nothing_to_call(module: ast.Module) -> SourceError:
    if not module.body:
        return SourceError("the source is empty", remedy="define one top-level function")
    return SourceError(
        "the source defines no public top-level function",
        remedy="write the tool as `def name(...)` directly in the module, without a leading underscore",
    )


def _stem(filename: str) -> str:
    base = PurePosixPath(filename.replace("\\", "/")[-4096:]).name
    return unicodedata.normalize("NFKC", base.removesuffix(".py").lstrip("."))
