"""Describe one callable as a model sees it: its name, its purpose, and the JSON schema of its arguments.

The signature gives types, defaults and order; the docstring gives the words; an `Annotated` or a `Field` gives both. A
schema that the source writes out has precedence over all of that, and then only the injected parameters are read from
the function. Everything that a model would miss becomes a problem.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.tools.dialects import Candidate
from sandbox.tools.docstrings import Documentation, read_docstring
from sandbox.tools.plain_json import JSON, NotPlain, PlainCopy
from sandbox.tools.problems import Problems, Severity
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.signature import is_mapping, returned_schema, shown_parameters, with_defaults
from sandbox.tools.source import Function, Source
from sandbox.tools.syntax.scope import docstring_of, is_null
from sandbox.tools.tool import INJECTED, MAX_GENERATED_NAME, NAME_PATTERN
from sandbox.tools.types.annotations import AnnotationReader
from sandbox.tools.types.field_metadata import ABSENT, FieldMetadata, read_default
from sandbox.tools.types.json_schemas import json_schema_of
from sandbox.tools.types.pydantic_types import FieldType, ValueType
from sandbox.tools.types.value_types import ANYTHING, record_of

_TWO_WAYS: Final = "define the class in this source, or use a plain type such as str, dict or list[str]"
_NOTHING: Final[dict[str, Any]] = {"type": "object", "properties": {}, "required": []}


@dataclass(frozen=True, slots=True)
class Described:
    """A callable as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    returns: dict[str, Any] | None
    """The schema of what it returns, where its annotation says one that is understood."""

    def schema(self) -> dict[str, Any]:
        """Return the neutral form, which every other is made from."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


def describe(candidate: Candidate, source: Source) -> Described:
    """Return the callable as a model sees it; problems go to the source's list."""
    return _Description(candidate, source).build()


def mapping_schema(candidate: Candidate, source: Source) -> dict[str, Any] | None:
    """Return the schema of the dict of all arguments, where its type is one with members."""
    listed = shown_parameters(candidate)
    annotation = candidate.arguments or (listed[0][0].annotation if listed else None)
    if annotation is None:
        return None
    reader = AnnotationReader(source.scope, declared=source.taken)
    return _with_members(json_schema_of(reader.read_type(annotation)[0].schema, reader.cells))


def _with_members(schema: dict[str, Any]) -> dict[str, Any] | None:
    if schema.get("type") != "object" or "properties" not in schema:
        return None
    return {key: value for key, value in schema.items() if key != "description"}


@dataclass(slots=True)
class _Description:
    """The description of one callable, in the making."""

    candidate: Candidate
    source: Source
    reader: AnnotationReader = field(init=False)
    documentation: Documentation = field(init=False)
    path: str = ""
    about: str = ""
    """The parameter whose annotation is being read."""

    def __post_init__(self) -> None:
        self.path = self.candidate.entry
        self.reader = AnnotationReader(self.source.scope, self._unknown, declared=self.source.taken)
        docstring = docstring_of(self.candidate.function)
        self.documentation = Documentation() if docstring is None else read_docstring(docstring)

    def build(self) -> Described:
        self._check_name()
        description = self._description()
        said = self.candidate.schema
        parameters = self._parameters() if said is None else self._written_schema(said)
        return Described(self.candidate.name, description, parameters, self._returns())

    @property
    def problems(self) -> Problems:
        return self.source.problems

    def _check_name(self) -> None:
        name = self.candidate.name
        if not NAME_PATTERN.fullmatch(name):
            self.problems.add(
                "bad_name",
                f"{excerpt(name, NAME_LENGTH)} is not a name that every provider takes",
                at=self.candidate.node,
                path=self.path,
                remedy="start with a letter, then at most 63 letters, digits, underscores and hyphens",
            )
        elif self.candidate.kind == "function" and len(name) > MAX_GENERATED_NAME:
            self.problems.add(
                "long_name",
                f"the name has {len(name)} characters, and a generated name may have {MAX_GENERATED_NAME}",
                at=self.candidate.node,
                path=self.path,
                remedy="shorten the function's name",
                severity="warning",
            )

    def _description(self) -> str:
        candidate = self.candidate
        said = candidate.description or self.documentation.description or self._of_owner()
        if said:
            return said
        if candidate.kind == "method":
            return f"{candidate.names[-1]} function"
        what = "no docstring" if candidate.kind == "function" else "no description"
        self.problems.add(
            "missing_docstring",
            f"{excerpt(candidate.entry, NAME_LENGTH)} has {what}",
            at=candidate.node,
            path=self.path,
            remedy="say in one line what it does: a model chooses by it",
        )
        return f"The {candidate.name} tool"

    def _of_owner(self) -> str | None:
        docstring = None if self.candidate.kind == "method" else docstring_of(self.candidate.owner)
        return None if docstring is None else read_docstring(docstring).description

    def _written_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema that the source writes out, as plain JSON with all its usual parts."""
        try:
            plain = PlainCopy().copy(schema)
        except (NotPlain, RecursionError) as fault:
            self._add("bad_schema", f"the schema {fault}", remedy="write it as JSON")
            return dict(_NOTHING)
        assert isinstance(plain, dict)
        made: dict[str, Any] = {**_NOTHING, **plain}
        self._check_described(made["properties"])
        self._check_taken(made)
        return made

    def _check_described(self, properties: JSON) -> None:
        """Report names in a schema that have no description."""
        for name, each in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(each, dict) or not each.get("description"):
                self._add(
                    "missing_description",
                    f"{excerpt(name, NAME_LENGTH)} has no description",
                    name=name,
                    remedy='add a "description" to it in the schema',
                )

    def _check_taken(self, schema: Mapping[str, Any]) -> None:
        """Report differences between the names in the schema and the parameters of the function."""
        function, properties, required = self.candidate.function, schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list | tuple):
            return
        if function is None or function.args.kwarg is not None or self._takes_mapping():
            return
        has_default = {argument.arg: default for argument, _, default in shown_parameters(self.candidate)}
        for name in (name for name in properties if name not in has_default):
            self._mismatch(
                name,
                f"the schema names {excerpt(name, NAME_LENGTH)}, the function does not",
                remedy="give the function a parameter of this name, or take it out of the schema",
            )
        for name in (name for name, default in has_default.items() if not default):
            if name not in properties:
                self._mismatch(
                    name,
                    f"the function requires {name}, the schema does not name it",
                    remedy="add it to the properties of the schema, or give it a default",
                )
            elif name not in required:
                self._mismatch(
                    name,
                    f"the function requires {name}, the schema lets it be left out",
                    remedy="give the parameter a default, or require it in the schema",
                    severity="warning",
                )

    def _mismatch(self, name: str, message: str, *, remedy: str, severity: Severity = "error") -> None:
        self._add("schema_mismatch", message, name=name, remedy=remedy, severity=severity)

    def _takes_mapping(self) -> bool:
        return self.candidate.kind in ("execute", "module", "handler") and is_mapping(shown_parameters(self.candidate))

    def _parameters(self) -> dict[str, Any]:
        function = self.candidate.function
        if function is None:
            return {**_NOTHING, "additionalProperties": True}
        listed = shown_parameters(self.candidate)
        if self.candidate.arguments is not None or self._takes_mapping():
            return self._of_mapping(self.candidate.arguments or listed[0][0].annotation)
        self._check_star(function)
        fields = [self._field(argument, default) for argument, default in with_defaults(function, listed)]
        self._check_section(function, fields)
        self._check_documented(function, [each.name for each in fields])
        return self._schema_of(record_of(fields, extra="allow" if function.args.kwarg is not None else None))

    def _schema_of(self, found: ValueType) -> dict[str, Any]:
        return json_schema_of(found.schema, self.reader.cells)

    def _of_mapping(self, annotation: ast.expr | None) -> dict[str, Any]:
        """Return all arguments as one dict: what its annotation says, when that is a type with members."""
        found = ANYTHING if annotation is None else self.reader.read_type(annotation)[0]
        made = _with_members(self._schema_of(found))
        if made is None:
            return {**_NOTHING, "additionalProperties": True}
        self._check_taken(made)
        return made

    def _field(self, argument: ast.arg, default: ast.expr | None) -> FieldType:
        name = argument.arg
        found, said = ANYTHING, FieldMetadata()
        if argument.annotation is None:
            self._add(
                "missing_annotation",
                f"the parameter {name} has no annotation",
                at=argument,
                name=name,
                remedy=f"write its type, such as {name}: str",
            )
        else:
            self.about = name
            found, said = self.reader.read_type(argument.annotation)
        behind = read_default(default, self.source.scope)
        found = self.reader.with_constraints(found, behind, argument)
        said.add(behind)
        description = said.description or self.documentation.parameters.get(name)
        if not description:
            self._add(
                "missing_description",
                f"the parameter {name} has no description",
                at=argument,
                name=name,
                remedy=f"add a line `{name}: …` under Args: in the docstring",
            )
        is_optional = self.reader.admits_none(argument.annotation)
        return FieldType(
            name=name,
            type=found,
            is_required=not said.has_default and not is_optional,
            is_optional=is_optional,
            default=None if said.default is ABSENT else said.default,
            description=description or None,
        )

    def _check_star(self, function: Function) -> None:
        star = function.args.vararg
        if star is not None:
            self._add(
                "star_arguments",
                f"*{star.arg} takes arguments without names, and a tool's arguments are named",
                at=star,
                name=star.arg,
                remedy=f"use a list parameter, such as {star.arg}: list[str]",
            )

    def _check_section(self, function: Function, fields: Sequence[FieldType]) -> None:
        if self.documentation.description is None and not self.documentation.has_parameters:
            return
        if not self.documentation.has_parameters and not all(each.description for each in fields):
            self._add(
                "missing_args_section",
                "the docstring has no section of parameters",
                at=function,
                remedy="add `Args:` with a line for each parameter",
            )

    def _check_documented(self, function: Function, names: Sequence[str]) -> None:
        stars = [each.arg for each in (function.args.vararg, function.args.kwarg) if each is not None]
        for name in self.documentation.parameters:
            if name not in names and name not in stars and name not in INJECTED and function.args.kwarg is None:
                self._add(
                    "unknown_parameter",
                    f"the docstring describes {excerpt(name, NAME_LENGTH)}, which is no parameter",
                    at=function,
                    name=name,
                    severity="warning",
                )

    def _returns(self) -> dict[str, Any] | None:
        function = self.candidate.function
        annotation = None if function is None else function.returns
        if function is None or (annotation is not None and is_null(annotation)):
            return None
        said = self.documentation
        if said.description is not None and said.returns is None and self.candidate.kind != "execute":
            self._add(
                "missing_returns",
                "the docstring does not say what is returned",
                at=function,
                remedy="add `Returns:`",
                severity="warning",
            )
        return returned_schema(self.candidate, self.source)

    def _unknown(self, node: ast.AST, what: str, why: str) -> None:
        self._add(
            "unknown_annotation",
            f"{what} in the annotation of {self.about} is not understood: {why}",
            at=node,
            name=self.about,
            remedy=_TWO_WAYS,
        )

    def _add(
        self,
        code: str,
        message: str,
        *,
        at: ast.AST | None = None,
        name: str | None = None,
        remedy: str | None = None,
        severity: Severity = "error",
    ) -> None:
        path = self.path if name is None else f"{self.path}.{name}"
        self.problems.add(code, message, at=at or self.candidate.node, path=path, remedy=remedy, severity=severity)
