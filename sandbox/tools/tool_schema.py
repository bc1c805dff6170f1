"""The schema of a tool, by order of precedence.

A given schema has precedence over everything. Given arguments (a pydantic model, or a JSON schema) have precedence over
the signature, with name and description from the source. Otherwise all of the schema comes from the source. Callers get
a copy, which they may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from sandbox.errors import SourceError, SpecError
from sandbox.tools.check import CheckedCallable, CheckReport, check_source
from sandbox.tools.dialects.entry import DEFAULT_FILENAME
from sandbox.tools.schemas import Export, Format, export, import_schema, mcp_tool, strict_form
from sandbox.tools.tool import display_name
from sandbox.tools.types.json_schemas import without_titles

_SHOWN = 5


def tool_schema(
    source: str | bytes,
    *,
    filename: str = DEFAULT_FILENAME,
    entry: str | None = None,
    given: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | type[BaseModel] | None = None,
) -> dict[str, Any]:
    """Return `{"name", "description", "parameters"}`; raise `SourceError` if the source has no complete schema."""
    if given is not None:
        return deepcopy(dict(given))
    report = check_source(source, filename=filename, entry=entry)
    if arguments is None:
        return deepcopy(whole(report).schema_)
    chosen = _readable(report)
    described = chosen.schema_["description"]
    return {"name": chosen.name, "description": described, "parameters": _parameters(arguments)}


def exported_schema(report: CheckReport, *, shape: str | None, strict: bool) -> Export:
    """Return the schema of a report's entry in a shape, with the losses; in the neutral form if `shape` is None."""
    chosen = whole(report)
    if shape is None:
        return Export(strict_form(chosen.schema_) if strict else deepcopy(chosen.schema_), ())
    if shape not in list(Format):
        raise SpecError(f"there is no format {shape[:64]!r}", remedy=f"take one of {', '.join(Format)}")
    if shape == Format.MCP:
        return mcp_tool(chosen.schema_, output=chosen.returns, title=_title(report, chosen))
    return export(chosen.schema_, to=Format(shape), strict=strict)


def whole(report: CheckReport) -> CheckedCallable:
    """Return the entry of a source that has a complete schema; raises `SourceError` with what it lacks."""
    chosen = _readable(report)
    errors = [each for each in report.problems if each.severity == "error" and _is_of(each.path, chosen)]
    if not errors:
        return chosen
    shown = "; ".join(f"line {each.line}: {each.message}" if each.line else each.message for each in errors[:_SHOWN])
    more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    raise SourceError(
        f"the source has no complete schema: {shown}{more}",
        line=errors[0].line,
        column=errors[0].column,
        remedy=errors[0].remedy if len(errors) == 1 else "`sandbox check` lists all problems",
    )


def _title(report: CheckReport, chosen: CheckedCallable) -> str:
    """Return the title: of a method its own name, otherwise that of its tool."""
    for record in report.metadata:
        for method in record.methods:
            if chosen.kind == "method" and chosen.entry.endswith(f".{method.name}"):
                return method.display_name
        if record.name == chosen.name:
            return record.display_name
    return display_name(chosen.name)


def _parameters(arguments: Mapping[str, Any] | type[BaseModel]) -> dict[str, Any]:
    if isinstance(arguments, Mapping):
        return import_schema(arguments).schema
    return import_schema(without_titles(arguments.model_json_schema())).schema


def _readable(report: CheckReport) -> CheckedCallable:
    chosen = report.chosen()
    if chosen is not None:
        return chosen
    if report.callables:
        names = ", ".join(each.entry for each in report.callables[:20])
        raise SourceError(
            f"the source has {len(report.callables)} callables: {names}", remedy="say which one is the entry"
        )
    first = next(each for each in report.problems if each.severity == "error")
    raise SourceError(first.message, line=first.line, column=first.column, remedy=first.remedy)


def _is_of(path: str | None, chosen: CheckedCallable) -> bool:
    """Return whether a problem is about this callable, or about the source as a whole."""
    if path is None:
        return True
    return path == chosen.entry or path.startswith((f"{chosen.entry}.", f"{chosen.entry}:"))
