"""Read what a callable takes and returns: its parameters, whether it is a generator, and the schema of its result."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sandbox.errors import SourceError
from sandbox.tools.dialects.candidate import Candidate
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.source import Function, Source
from sandbox.tools.syntax.scope import is_null, last_name
from sandbox.tools.tool import INJECTED, Parameter, ParameterKind
from sandbox.tools.types.annotation_syntax import arguments, well_known_name
from sandbox.tools.types.annotations import AnnotationReader
from sandbox.tools.types.field_metadata import FIELDS, read_default
from sandbox.tools.types.json_schemas import json_schema_of
from sandbox.tools.types.known_types import ITERATORS
from sandbox.tools.types.pydantic_types import ValueType
from sandbox.tools.types.value_types import ANYTHING, array_of

MAX_PARAMETERS: Final = 256
MAX_ANNOTATION_CHARACTERS: Final = 16 * 1024
_MAPPINGS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
_MAPPING_NAMES: Final = frozenset({"args", "arguments", "params", "parameters", "inputs", "input_data"})

Listed: TypeAlias = "tuple[ast.arg, ParameterKind, bool]"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a callable."""

    parameters: tuple[Parameter, ...]
    accepts_extra: bool
    injected: tuple[str, ...] = ()
    takes_mapping: bool = False
    annotations: tuple[ast.expr, ...] = ()


def read_signature(candidate: Candidate, source: Source) -> Signature:
    """Return the parameters in their order, without the object itself and without what the call fills in."""
    function = candidate.function
    if function is None:
        return _signature_of_schema(candidate, takes_mapping=False)
    listed = _list_parameters(candidate, function)
    injected = tuple(argument.arg for argument, _, _ in listed if argument.arg in INJECTED)
    shown = shown_parameters(candidate)
    if candidate.kind in ("execute", "module", "handler") and (candidate.schema is not None or is_mapping(shown)):
        return _signature_of_schema(candidate, injected=injected, takes_mapping=is_mapping(shown))
    _refuse_star(function.args.vararg)
    return Signature(
        _parameters(function, shown, source),
        function.args.kwarg is not None,
        injected=injected,
        annotations=tuple(
            each
            for argument, default in with_defaults(function, shown)
            for each in (argument.annotation, _field(default))
            if each is not None
        ),
    )


def shown_parameters(candidate: Candidate) -> list[Listed]:
    """Return the parameters that a model sees."""
    function = candidate.function
    return (
        []
        if function is None
        else [each for each in _list_parameters(candidate, function) if each[0].arg not in INJECTED]
    )


def _list_parameters(candidate: Candidate, function: Function) -> list[Listed]:
    return list(in_order(function.args))[1 if candidate.is_bound else 0 :]


def is_mapping(shown: list[Listed]) -> bool:
    """Return whether the only thing it takes is the dict of all arguments."""
    if len(shown) != 1:
        return False
    argument, kind, _ = shown[0]
    is_dict = argument.annotation is not None and last_name(argument.annotation) in _MAPPINGS
    return kind is not ParameterKind.KEYWORD_ONLY and (is_dict or argument.arg in _MAPPING_NAMES)


def _signature_of_schema(candidate: Candidate, *, injected: tuple[str, ...] = (), takes_mapping: bool) -> Signature:
    """Return the parameters that its schema names."""
    schema = candidate.schema or {}
    properties, listed = schema.get("properties"), schema.get("required")
    names = properties if isinstance(properties, dict) else {}
    required = listed if isinstance(listed, list | tuple) else ()
    return Signature(
        tuple(
            Parameter(
                name, ParameterKind.KEYWORD_ONLY, None, required=name in required, has_default=name not in required
            )
            for name in names
        ),
        accepts_extra=not names or schema.get("additionalProperties", False) is not False,
        injected=injected,
        takes_mapping=takes_mapping,
    )


def _parameters(function: Function, listed: list[Listed], source: Source) -> tuple[Parameter, ...]:
    if len(listed) > MAX_PARAMETERS:
        raise SourceError(
            f"the function has {len(listed)} parameters and may have {MAX_PARAMETERS}",
            line=function.lineno,
            remedy="take one object parameter",
        )
    _refuse_duplicates([argument for argument, _, _ in listed])
    written = [(argument.annotation, _field(default)) for argument, default in with_defaults(function, listed)]
    annotations = _annotation_texts(function, written, source.text)
    reader = AnnotationReader(source.scope, declared=source.taken)
    return tuple(
        _parameter(listed_one, annotation, field, reader=reader, source=source)
        for listed_one, annotation, (_, field) in zip(listed, annotations, written, strict=True)
    )


def _parameter(
    listed: Listed, annotation: str | None, field: ast.expr | None, *, reader: AnnotationReader, source: Source
) -> Parameter:
    argument, kind, is_behind = listed
    has_default = is_behind if field is None else read_default(field, source.scope).has_default
    return Parameter(
        name=argument.arg,
        kind=kind,
        annotation=annotation,
        required=not has_default and not reader.admits_none(argument.annotation),
        has_default=has_default,
    )


def _field(default: ast.expr | None) -> ast.expr | None:
    """Return a `Field(3, ge=1)` in the place of a default, which the box takes the default from."""
    return default if isinstance(default, ast.Call) and last_name(default.func) in FIELDS else None


def with_defaults(function: Function, listed: Sequence[Listed]) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return each parameter with the expression behind its `=`."""
    arguments = function.args
    positional = arguments.posonlyargs + arguments.args
    padded = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    behind = {id(each): default for each, default in zip(positional, padded, strict=True)}
    behind |= {id(each): default for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    return [(argument, behind[id(argument)]) for argument, _, _ in listed]


def is_generator(function: Function) -> bool:
    """Return whether the function's own body yields; what functions inside it yield is theirs."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(function))


def in_order(arguments: ast.arguments) -> Iterator[Listed]:
    positional = arguments.posonlyargs + arguments.args
    without_default = len(positional) - len(arguments.defaults)
    for position, argument in enumerate(positional):
        only = position < len(arguments.posonlyargs)
        kind = ParameterKind.POSITIONAL_ONLY if only else ParameterKind.POSITIONAL_OR_KEYWORD
        yield argument, kind, position >= without_default
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument, ParameterKind.KEYWORD_ONLY, default is not None


def _refuse_star(star: ast.arg | None) -> None:
    if star is not None:
        name = excerpt(star.arg, NAME_LENGTH)
        raise SourceError(
            f"*{name} takes arguments without names, and a tool's arguments are named",
            line=star.lineno,
            column=star.col_offset + 1,
            remedy=f"use a list parameter, such as {name}: list[str]",
        )


def _refuse_duplicates(arguments: list[ast.arg]) -> None:
    seen: set[str] = set()
    for argument in arguments:
        if argument.arg in seen:
            raise SourceError(
                f"syntax error: two parameters are named {excerpt(argument.arg, NAME_LENGTH)}",
                line=argument.lineno,
                column=argument.col_offset + 1,
                remedy="rename one of them",
            )
        seen.add(argument.arg)


def _annotation_texts(
    function: Function, written: Sequence[tuple[ast.expr | None, ast.expr | None]], text: str
) -> list[str | None]:
    """Return the annotations as written, each with the `Field` behind its `=`.

    `ast.unparse` would recurse, and change the annotations.
    """
    last = max((each.end_lineno or 0 for pair in written for each in pair if each is not None), default=0)
    lines = text.encode().split(b"\n", last)
    texts = [_join_field(_segment(annotation, lines), _segment(field, lines)) for annotation, field in written]
    if sum(len(each) for each in texts if each is not None) > MAX_ANNOTATION_CHARACTERS:
        raise SourceError(
            f"the annotations of the function have more than {MAX_ANNOTATION_CHARACTERS} characters",
            line=function.lineno,
            remedy="use wider types",
        )
    return texts


def _join_field(annotation: str | None, field: str | None) -> str | None:
    return annotation if field is None else f"Annotated[{annotation or 'Any'}, {field}]"


def _segment(node: ast.expr | None, lines: list[bytes]) -> str | None:
    if node is None or node.end_lineno is None or node.end_col_offset is None:
        return None
    spanned = lines[node.lineno - 1 : node.end_lineno]
    spanned[-1] = spanned[-1][: node.end_col_offset]
    spanned[0] = spanned[0][node.col_offset :]
    return b"\n".join(spanned).decode()


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield every node that is evaluated when the function's body runs, found without recursion."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *_defaults(node.args)]
        elif isinstance(node, ast.Lambda):
            waiting += _defaults(node.args)
        else:
            waiting += ast.iter_child_nodes(node)


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]


_PLAIN: Final = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
}
"""The most frequent annotations, whose schemas need no reader."""


def returned_schema(candidate: Candidate, source: Source) -> dict[str, Any] | None:
    """Return the schema; None where the annotation says nothing, or nothing that is understood."""
    annotation = None if candidate.function is None else candidate.function.returns
    if annotation is None or is_null(annotation) or last_name(annotation) == "ToolResult":
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
    found = _result_type(annotation, reader, source)
    return None if unknown or found is ANYTHING else json_schema_of(found.schema, reader.cells)


def _result_type(annotation: ast.expr, reader: AnnotationReader, source: Source) -> ValueType:
    """Return the type of the result; an iterator comes back as a list of its items."""
    iterated = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    if well_known_name(iterated, source.scope) not in ITERATORS:
        return reader.read_type(annotation)[0]
    items = arguments(annotation)
    return array_of(reader.read_type(items[0])[0] if items else ANYTHING)
