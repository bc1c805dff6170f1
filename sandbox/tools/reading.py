"""Read a source into a `ToolDefinition`, and remember the definition.

The same source comes with every call of a warm tool, so definitions are kept under the digest of the source: a repeated
call pays for hashing only. A source that cannot be read is not kept, and is refused again.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace
from typing import Final

from sandbox.tools.dialects import Candidate, read_candidates, settings_of
from sandbox.tools.dialects.entry import DEFAULT_FILENAME, choose_entry, safe_filename
from sandbox.tools.script_block import read_script_block
from sandbox.tools.signature import is_generator, read_signature, returned_schema
from sandbox.tools.source import open_source
from sandbox.tools.syntax.decoding import MAX_SOURCE_BYTES, decode_source
from sandbox.tools.syntax.parsing import parse_module
from sandbox.tools.syntax.scope import docstring_of, imported_names
from sandbox.tools.tool import CallForm, ToolDefinition
from sandbox.tools.weighted_lru import WeightedLRU

_MAX_BYTES: Final = 32 * 1024 * 1024
_tools: WeightedLRU[tuple[str, str, str | None], ToolDefinition] = WeightedLRU(most=512, heaviest=_MAX_BYTES)


def read_tool(source: str | bytes, *, filename: str = DEFAULT_FILENAME, entry: str | None = None) -> ToolDefinition:
    """Return the tool that a source defines, or `SourceError`; nothing of the source is executed."""
    key = (source_digest(source), filename, entry)
    tool = _tools.get(key)
    if tool is None:
        tool = _read(source, filename=filename, entry=entry)
        _tools.put(key, tool, weight=4 * len(tool.text) + len(filename))
    return tool


def read_requirements_of(source: str | bytes) -> tuple[str, ...]:
    """Return the requirements of a source, for any entry."""
    return read_script_block(decode_source(source)).requirements


def source_digest(source: str | bytes) -> str:
    """Return the digest of a source; text and bytes differ, because only bytes are decoded by their encoding line."""
    if len(source) > MAX_SOURCE_BYTES:
        return "oversize"
    if isinstance(source, bytes):
        return "bytes:" + hashlib.sha256(source).hexdigest()
    return "text:" + hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()


def _read(given: str | bytes, *, filename: str, entry: str | None) -> ToolDefinition:
    text = decode_source(given)
    block = read_script_block(text)
    source = open_source(text, parse_module(text, requires_python=block.requires_python))
    chosen = choose_entry(source, read_candidates(source), filename=filename, entry=entry)
    taken = read_signature(chosen, source)
    if chosen.schema is None and (taken.takes_mapping or chosen.arguments is not None):
        from sandbox.tools.description import mapping_schema

        chosen = replace(chosen, schema=mapping_schema(chosen, source))
        taken = read_signature(chosen, source)
    function = chosen.function
    return ToolDefinition(
        name=chosen.name,
        entry=chosen.entry,
        filename=safe_filename(filename),
        text=text,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        is_async=isinstance(function, ast.AsyncFunctionDef),
        is_generator=function is not None and is_generator(function),
        parameters=taken.parameters,
        accepts_extra=taken.accepts_extra,
        imports=imported_names(source.statements),
        line=getattr(chosen.node, "lineno", 1),
        docstring=_docstring(chosen),
        requirements=block.requirements,
        requires_python=block.requires_python,
        call=CallForm(chosen.kind, chosen.names, taken.injected, takes_mapping=taken.takes_mapping),
        scope=source.scope.reachable(taken.annotations),
        settings=settings_of(chosen, block.settings),
        schema=chosen.schema,
        returns=returned_schema(chosen, source),
    )


def _docstring(candidate: Candidate) -> str | None:
    return docstring_of(candidate.owner if candidate.kind == "execute" else candidate.function)
