"""Choose which callable of a source is the tool.

The order is: the callable that the caller asked for; the callable named like the file; the only callable. There is no
fourth rule, because a guess such as "the last one" runs the wrong code one day. If a source marks something as its tool
(a class deriving from `BaseTool`, `TOOL_NAME`, `@tool`), plain functions are called only when asked for.

A name with a leading underscore is private, also when a caller asks for it. If a name is defined twice, the later
definition counts, as in Python.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from sandbox.errors import SourceError
from sandbox.tools.dialects import Candidate
from sandbox.tools.dialects.method_class import methods_of
from sandbox.tools.safe_text import NAME_LENGTH, excerpt, name_list
from sandbox.tools.source import Source

DEFAULT_FILENAME: Final = "tool.py"
_MAX_STEM_LENGTH: Final = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def safe_filename(filename: str) -> str:
    """Return a base name that can be a module's file anywhere: ASCII letters, digits and underscores, then `.py`."""
    stem = _UNSAFE.sub("_", _stem(filename))[:_MAX_STEM_LENGTH]
    return f"{stem}.py" if stem.strip("_") else DEFAULT_FILENAME


def choose_entry(source: Source, candidates: Sequence[Candidate], *, filename: str, entry: str | None) -> Candidate:
    """Return the candidate to call."""
    if entry is not None:
        return _asked_for(candidates, unicodedata.normalize("NFKC", entry[: NAME_LENGTH * 16]))
    if not candidates:
        raise _nothing_to_call(source)
    meant = meant_candidates(candidates)
    stem = _stem(filename).replace("-", "_").replace(" ", "_")
    named_like_file = next((each for each in meant if stem in (each.entry, each.name)), None)
    if named_like_file is not None:
        return named_like_file
    if len(meant) > 1:
        raise SourceError(
            f"the source has {_count(meant)}: {name_list(each.entry for each in meant)}",
            remedy="say which one is the entry, name it like the file, or start the others with an underscore",
        )
    return meant[0]


def meant_candidates(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the candidates that the source marks as tools, or all if none is marked."""
    return [each for each in candidates if each.is_marked] or candidates


def _asked_for(candidates: Sequence[Candidate], entry: str) -> Candidate:
    by_owner = [each for each in candidates if each.owner is not None and each.owner.name == entry]
    by_entry = [each for each in candidates if each.entry == entry]
    by_name = [each for each in candidates if each.name == entry]
    found = meant_candidates(by_entry or by_name or by_owner)
    if len(found) == 1:
        return found[0]
    if found:
        raise SourceError(
            f"{excerpt(entry, NAME_LENGTH)} is not one callable: {name_list(each.entry for each in found)}",
            remedy="say which one is the entry, such as Class.method",
        )
    listed = f"it has {name_list(each.entry for each in candidates)}" if candidates else "it has none"
    raise SourceError(
        f"the source has no public top-level function {excerpt(entry, NAME_LENGTH)}: {listed}",
        remedy="a function inside a class, a function, an if or a try, or with a leading underscore, is not called",
    )


def _count(candidates: Sequence[Candidate]) -> str:
    is_all_functions = all(each.kind == "function" for each in candidates)
    return f"{len(candidates)} public functions" if is_all_functions else f"{len(candidates)} callables"


def _nothing_to_call(source: Source) -> SourceError:
    if not source.module.body:
        return SourceError("the source is empty", remedy="define one top-level function")
    if source.problems.found:
        first = source.problems.found[0]
        return SourceError(first.message, line=first.line, column=first.column, remedy=first.remedy)
    for owner in source.classes.values():
        if (almost := _almost(source, owner)) is not None:
            return almost
    return SourceError(
        "the source defines no public top-level function",
        remedy="write the tool as `def name(...)` directly in the module, without a leading underscore",
    )


def _almost(source: Source, owner: ast.ClassDef) -> SourceError | None:
    """Return why a class that looks like a tool is not a tool."""
    name = excerpt(owner.name, NAME_LENGTH)
    methods = {method.name for each in source.line_of_bases(owner) for method in methods_of(each)}
    if source.derives_from(owner, "BaseTool"):
        what = "has no execute" if "execute" not in methods else "is not a tool that can be called"
        remedy = "write `def execute(self, args: dict) -> ToolResult` in it, and no underscore before its name"
    elif source.derives_from(owner, "Tool"):
        what = "has no public method that is marked"
        remedy = "mark the methods that are tools with @method_metadata() or @openapi_schema({...})"
    elif "execute" in methods:
        what, remedy = "has an execute, and is no BaseTool", "derive it from BaseTool"
    else:
        return None
    return SourceError(f"the class {name} {what}", line=owner.lineno, column=owner.col_offset + 1, remedy=remedy)


def _stem(filename: str) -> str:
    base = PurePosixPath(filename.replace("\\", "/")[-4096:]).name
    return unicodedata.normalize("NFKC", base.removesuffix(".py").lstrip("."))
