"""A source to a `Tool`, remembered.

The same source comes with every call of a warm tool, so what was read is kept under the digest of what was given: a
repeated call pays for hashing alone. What cannot be read is not kept; it is refused again.
"""

from __future__ import annotations

import ast
import hashlib
from typing import Final

from sandbox.tools.decoding import MAX_SOURCE_BYTES, decode_source
from sandbox.tools.entry import DEFAULT_FILENAME, choose_entry, safe_filename
from sandbox.tools.module_names import import_time_statements, imported_modules, redefined_names
from sandbox.tools.parsing import parse_module
from sandbox.tools.recent import Recent
from sandbox.tools.script_block import read_script_block
from sandbox.tools.signature import injected_names, is_generator, read_parameters
from sandbox.tools.tool import CallForm, Tool

_HEAVIEST_BYTES: Final = 32 * 1024 * 1024
_tools: Recent[tuple[str, str, str | None], Tool] = Recent(most=512, heaviest=_HEAVIEST_BYTES)


def read_tool(source: str | bytes, *, filename: str = DEFAULT_FILENAME, entry: str | None = None) -> Tool:
    """The tool that a source defines, or `SourceError`; nothing of the source is executed."""
    key = (_digest(source), filename, entry)
    tool = _tools.get(key)
    if tool is None:
        tool = _read(source, filename=filename, entry=entry)
        _tools.put(key, tool, weight=4 * len(tool.text) + len(filename))
    return tool


def _digest(source: str | bytes) -> str:
    """Text and bytes of the same content differ: only bytes are decoded by their encoding line."""
    if len(source) > MAX_SOURCE_BYTES:
        return "oversize"
    if isinstance(source, bytes):
        return "bytes:" + hashlib.sha256(source).hexdigest()
    return "text:" + hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()


def _read(source: str | bytes, *, filename: str, entry: str | None) -> Tool:
    text = decode_source(source)
    block = read_script_block(text)
    module = parse_module(text)
    function = choose_entry(module, filename=filename, entry=entry)
    statements = list(import_time_statements(module))
    redefined = redefined_names(statements)
    return Tool(
        name=function.name,
        entry=function.name,
        filename=safe_filename(filename),
        text=text,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        is_async=isinstance(function, ast.AsyncFunctionDef),
        is_generator=is_generator(function),
        parameters=read_parameters(function, text, redefined=redefined),
        accepts_extra=function.args.kwarg is not None,
        imports=imported_modules(statements),
        redefined=redefined,
        line=function.lineno,
        docstring=_docstring(function),
        requirements=block.requirements,
        requires_python=block.requires_python,
        call=CallForm("function", (function.name,), injected_names(function)),
    )


def _docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """The docstring without its indentation, and without half surrogates, which an escape can put into it."""
    docstring = ast.get_docstring(function)
    return None if docstring is None else docstring.encode(errors="replace").decode()
