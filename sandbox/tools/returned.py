"""What a function returns, as a JSON schema, where its annotation says one."""

from __future__ import annotations

import ast
from typing import Any, Final

from sandbox.tools.annotation_syntax import arguments
from sandbox.tools.annotations import AnnotationReader
from sandbox.tools.dialects import Candidate
from sandbox.tools.json_schemas import json_schema_of
from sandbox.tools.known_types import ITERATORS
from sandbox.tools.names_in_source import last_name
from sandbox.tools.source import Source
from sandbox.tools.unions import well_known_name
from sandbox.tools.value_types import ANYTHING, ValueType, array_of

_PLAIN: Final = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
}
"""What nearly all that say anything say; the same schemas, without the effort."""


def returned_schema(candidate: Candidate, source: Source) -> dict[str, Any] | None:
    """The schema; None where the annotation says nothing, or nothing that is understood."""
    annotation = None if candidate.function is None else candidate.function.returns
    if annotation is None or _is_none(annotation) or last_name(annotation) == "ToolResult":
        return None
    if (
        isinstance(annotation, ast.Name)
        and annotation.id in _PLAIN
        and source.scope.full_name(annotation.id) == annotation.id
    ):
        return dict(_PLAIN[annotation.id])
    unknown: list[ast.AST] = []
    reader = AnnotationReader(
        source.scope, lambda node, _what, _why: unknown.append(node), is_returned=True, declared=source.returned
    )
    found = _returned(annotation, reader, source)
    return None if unknown or found is ANYTHING else json_schema_of(found, reader.cells)


def _returned(annotation: ast.expr, reader: AnnotationReader, source: Source) -> ValueType:
    """What an iterator goes over comes back as a list."""
    iterated = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    if well_known_name(iterated, source.scope) not in ITERATORS:
        return reader.spoken_type(annotation)[0]
    items = arguments(annotation)
    return array_of(reader.spoken_type(items[0])[0] if items else ANYTHING)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
