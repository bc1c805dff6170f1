"""Check arguments against the parameters of a tool: return what the call gets, or all problems at once.

The annotations become the fields of a pydantic model, built once for each tool. Arguments are first copied into plain
JSON values, then known names are validated. Unknown, missing and wrong arguments are reported together, each with a
path, in words that a model can act on. Bad arguments are an outcome of the call, so nothing here raises for them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from sandbox.errors import SchemaRefused
from sandbox.tools.plain_json import JSON, MAX_INTEGER, MIN_INTEGER, NotPlain, PlainCopy
from sandbox.tools.safe_text import NAME_LENGTH, excerpt, name_list, printable
from sandbox.tools.syntax.parsing import parse_expression
from sandbox.tools.tool import ToolDefinition
from sandbox.tools.types.annotations import AnnotationReader
from sandbox.tools.types.pydantic_types import STRICT, ValueType
from sandbox.tools.types.schema_types import schema_type
from sandbox.tools.types.validation_budget import Attempt, TooMuchWork, WorkBudget
from sandbox.tools.types.value_types import ANYTHING, BOOLEAN, INTEGER, NUMBER, TEXT
from sandbox.tools.weighted_lru import WeightedLRU

if TYPE_CHECKING:
    from sandbox.tools.schemas.validator import SchemaValidator

MAX_PROBLEMS: Final = 100
_SHOWN: Final = 80
_SHORT: Final = 1 << 12
_SCALARS: Final = {id(TEXT): str, id(INTEGER): int, id(NUMBER): float, id(BOOLEAN): bool}


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """A problem with the arguments; every text has at most 200 printable characters."""

    path: str
    message: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The arguments of a call; none at all when there is a problem."""

    arguments: dict[str, JSON]
    problems: tuple[ArgumentProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Model:
    """A tool's parameters as a pydantic model; its fields are numbered, because pydantic does not allow every name."""

    fields: type[BaseModel]
    names: dict[str, str]
    """The parameter's name, for each field."""
    expected: dict[str, str]
    """The type that each parameter takes, in words."""
    left_out: dict[str, JSON]
    """The values of parameters that are neither required nor have a default."""
    required: frozenset[str]
    """All others may be left out, and null means the same."""
    scalars: dict[str, type]
    """The parameters that are declared as one of Python's own scalar types."""
    whole: SchemaValidator | None = None
    """The validator of the schema, if the source writes out a schema."""


_TOO_MUCH: Final = ArgumentProblem(
    path="",
    message="the arguments are too large to compare with the unions they are declared as",
    expected="fewer values, or plainer types",
    got="too many combinations",
)
_models: WeightedLRU[tuple[str, str], _Model] = WeightedLRU(most=256, heaviest=4096)


def bind(tool: ToolDefinition, args: Mapping[str, object]) -> Binding:
    """Check and convert arguments by the types the tool declares. A null for what may be left out is left out: that is
    how a model fills in what strict schemas ask of it."""
    model = _model_of(tool)
    if _are_as_declared(args, model):
        return Binding({**model.left_out, **args})
    plain, faulty = plain_arguments(args)
    if any(_holds_null(value) for value in plain.values()):
        plain = _without_nulls(plain, tool, model)
    known = {name: value for name, value in plain.items() if name in model.expected}
    unknown = () if len(known) == len(plain) or tool.accepts_extra else plain.keys() - known.keys()
    checked, wrong = _validate(model, known, faulty=faulty)
    problems = [*faulty.values(), *_unknown_problems(unknown, plain, model), *wrong]
    if not problems and model.whole is not None:
        problems = _schema_problems({**plain, **checked}, model.whole)
    if problems:
        return Binding({}, tuple(problems[:MAX_PROBLEMS]))
    return Binding({**model.left_out, **plain, **checked})


def _are_as_declared(args: Mapping[str, object], model: _Model) -> TypeGuard[dict[str, JSON]]:
    """Return whether nothing needs to be copied, converted or refused.

    Every argument is a short text, a number or a truth value, as declared. Nearly all calls are like that, and pydantic
    is left out of them.
    """
    scalars = model.scalars
    if model.whole is not None or type(args) is not dict:
        return False
    if len(args) > MAX_PROBLEMS or not model.required <= args.keys():
        return False
    for name, value in args.items():
        kind = type(value)
        if type(name) is not str or scalars.get(name) is not kind:
            return False
        if kind is str and not (len(value) <= _SHORT and value.isascii()):
            return False
        if kind is int and not MIN_INTEGER <= value <= MAX_INTEGER:
            return False
        if kind is float and not isfinite(value):
            return False
    return True


def _model_of(tool: ToolDefinition) -> _Model:
    key = (tool.digest, tool.entry)
    model = _models.get(key)
    if model is None:
        model = _build_model(tool)
        _models.put(key, model, weight=1 + len(tool.parameters))
    return model


def _build_model(tool: ToolDefinition) -> _Model:
    names = {f"parameter_{number}": parameter.name for number, parameter in enumerate(tool.parameters)}
    types = _types(tool)
    fields: dict[str, Any] = {
        field: (found.type, Field(alias=parameter.name) if parameter.required else Field(None, alias=parameter.name))
        for field, parameter, found in zip(names, tool.parameters, types, strict=True)
    }
    return _Model(
        fields=create_model("Arguments", __config__=STRICT, **fields),
        names=names,
        expected={parameter.name: found.expected for parameter, found in zip(tool.parameters, types, strict=True)},
        left_out={each.name: None for each in tool.parameters if not each.required and not each.has_default},
        required=frozenset(parameter.name for parameter in tool.parameters if parameter.required),
        scalars={
            parameter.name: _SCALARS[id(found)]
            for parameter, found in zip(tool.parameters, types, strict=True)
            if id(found) in _SCALARS
        },
        whole=_validator(tool),
    )


def _holds_null(value: JSON) -> bool:
    """Return whether null is in it anywhere; a scalar is looked at only once."""
    if isinstance(value, dict):
        return any(_holds_null(member) for member in value.values())
    if isinstance(value, list):
        return any(_holds_null(item) for item in value)
    return value is None


def _without_nulls(plain: Mapping[str, JSON], tool: ToolDefinition, model: _Model) -> dict[str, JSON]:
    """Return the arguments without nulls in the place of what may be left out, at every depth."""
    optional = model.expected.keys() - model.required
    given = {name: value for name, value in plain.items() if value is not None or name not in optional}
    if not any(value is not None and _holds_null(value) for value in given.values()):
        return given
    from sandbox.tools.check import check_source
    from sandbox.tools.schemas.strict import without_filled_nulls

    chosen = check_source(tool.text, filename=tool.filename, entry=tool.entry).chosen()
    return given if chosen is None else without_filled_nulls(given, chosen.schema_)


def _types(tool: ToolDefinition) -> list[ValueType]:
    """Return the types of the parameters, from the annotation or else from the schema of the source."""
    schema = tool.schema or {}
    properties = schema.get("properties")
    listed = properties if isinstance(properties, Mapping) else {}
    return [
        schema_type(listed.get(parameter.name), schema) if parameter.annotation is None else found
        for parameter, found in zip(tool.parameters, _annotated_types(tool), strict=True)
    ]


def _annotated_types(tool: ToolDefinition) -> list[ValueType]:
    reader = AnnotationReader(tool.scope)
    nodes = [None if each.annotation is None else parse_expression(each.annotation) for each in tool.parameters]
    return [ANYTHING if node is None else reader.read_type(node)[0] for node in nodes]


def _validator(tool: ToolDefinition) -> SchemaValidator | None:
    """Return the validator of a schema that the source writes out; None if the schema is invalid, which `check`
    reports.
    """
    if tool.schema is None:
        return None
    from sandbox.tools.schemas.validator import validator

    try:
        return validator(tool.schema)
    except SchemaRefused:
        return None


def _schema_problems(arguments: Mapping[str, JSON], whole: SchemaValidator) -> list[ArgumentProblem]:
    from sandbox.tools.schemas.nodes import ROOT

    return [
        ArgumentProblem(
            each.path.removeprefix(ROOT).lstrip("."), each.message, "what the schema says", "something else"
        )
        for each in whole.problems(arguments)
    ]


def plain_arguments(args: Mapping[str, object]) -> tuple[dict[str, JSON], dict[object, ArgumentProblem]]:
    """Return copies of the arguments, and a problem for each argument that is not plain JSON."""
    plain: dict[str, JSON] = {}
    faulty: dict[object, ArgumentProblem] = {}
    copies = PlainCopy()
    items: Iterable[tuple[object, object]] = args.items()
    for name, value in items:
        try:
            plain[copies.key(name)] = copies.copy(value)
        except NotPlain as fault:
            faulty[name] = _not_plain(name, fault)
        except RecursionError:  # the caller itself has nested almost as deeply as Python goes
            faulty[name] = _not_plain(name, NotPlain("is nested too deeply", value))
        if len(faulty) >= MAX_PROBLEMS:
            break
    return plain, faulty


def _not_plain(name: object, fault: NotPlain) -> ArgumentProblem:
    path = path_of([name if isinstance(name, str) else _show(name), *fault.path])
    return ArgumentProblem(path, f"the value {fault.message}", "a JSON value", _show(fault.value))


def _validate(
    model: _Model, known: dict[str, JSON], *, faulty: Container[object]
) -> tuple[dict[str, JSON], list[ArgumentProblem]]:
    """Return the known arguments by their declared types, and what is wrong with those that are not faulty already."""
    try:
        checked = model.fields.model_validate(known, context=Attempt(WorkBudget()))
    except TooMuchWork:
        return {}, [_TOO_MUCH]
    except ValidationError as error:
        found = error.errors(include_url=False)
        return {}, [_problem(each, model) for each in found if each["loc"][0] not in faulty]
    values = checked.__dict__
    return {model.names[field]: values[field] for field in checked.model_fields_set}, []


def _problem(error: ErrorDetails, model: _Model) -> ArgumentProblem:
    path = path_of(error["loc"])
    if error["type"] == "missing":
        name = str(error["loc"][0])
        return ArgumentProblem(path, "this argument is required and was not given", model.expected[name], "nothing")
    if error["type"] == "extra_forbidden":
        return ArgumentProblem(path, "nothing of this name is taken here", "no such member", _show(error["input"]))
    expected = excerpt(str(error.get("ctx", {}).get("expected", error["msg"])))
    return ArgumentProblem(path, excerpt(f"must be {expected}"), expected, _show(error["input"]))


def _unknown_problems(unknown: Iterable[str], plain: Mapping[str, JSON], model: _Model) -> list[ArgumentProblem]:
    takes = f"one of {name_list(model.expected)}" if model.expected else "no arguments"
    return [
        ArgumentProblem(path_of([name]), "the tool takes no argument of this name", excerpt(takes), _show(plain[name]))
        for name in sorted(unknown)[:MAX_PROBLEMS]
    ]


def path_of(steps: Iterable[str | int]) -> str:
    """Return the place of a value, seen from the call, such as `rows[2].name`."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{printable(step)}" if path else printable(step)
        if len(path) > 200:
            return excerpt(path)
    return path


def _show(value: object) -> str:
    """Return a value in a few words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{excerpt(value, _SHOWN)}"'
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"an array of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    return f"a value of type {excerpt(type(value).__name__, NAME_LENGTH)}"
