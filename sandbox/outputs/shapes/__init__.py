"""Shapes: one function per output type, and the table of all output types.

A shape gets what is known of the text, the budget and the notice. The function returns a text that, without the notice,
is at most as long as the budget, and the number of characters of the original in it. Only a text that does not fit is
shaped. A new output type is one function here and one line in `SHAPES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sandbox.outputs.highlights import ErrorHighlights, FailureHighlights
from sandbox.outputs.shapes.json_data import json_data
from sandbox.outputs.shapes.shape import OutputShape
from sandbox.outputs.shapes.table import table
from sandbox.outputs.shapes.texts import (
    error_message,
    execution_result,
    file_content,
    knowledge_content,
    status_message,
    unshown,
)

STDOUT_TYPE: Final = "execution_result"
STDERR_TYPE: Final = "error_message"

SHAPES: Final[Mapping[str, OutputShape]] = {
    "knowledge_content": OutputShape(60_000, 12_000, knowledge_content),
    "file_content": OutputShape(60_000, 12_000, file_content),
    "file_view_result": OutputShape(60_000, 12_000, file_content),
    "execution_result": OutputShape(8_000, 12_000, execution_result, is_printed=True, highlighter=ErrorHighlights),
    "error_message": OutputShape(8_000, 12_000, error_message, is_printed=True, highlighter=FailureHighlights),
    "status_message": OutputShape(2_000, 4_000, status_message, is_printed=True),
    "json_data": OutputShape(8_000, 12_000, json_data, kept=2 << 20),
    "table": OutputShape(8_000, 12_000, table),
    "image": OutputShape(0, 0, unshown),
    "binary": OutputShape(0, 0, unshown),
    "file": OutputShape(0, 0, unshown),
}
_UNKNOWN: Final = OutputShape(2_000, 4_000, execution_result, is_printed=True, highlighter=ErrorHighlights)


def shape_for(output_type: str) -> OutputShape:
    """Return the shape of an output type; an unknown type has a shape as well."""
    return SHAPES.get(output_type, _UNKNOWN)
