"""Classes of a source that have a form in JSON: what kind each is, and the members it names.

A class is known by the last name of what it derives from or is decorated with, as everywhere here: `BaseModel` of
pydantic, `TypedDict`, `NamedTuple`, `Enum`, `@dataclass`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from sandbox.tools.plain_json import JSON
from sandbox.tools.syntax.literals import NotLiteral, literal
from sandbox.tools.syntax.scope import Scope, assignments, docstring_of, last_name
from sandbox.tools.types.field_metadata import FieldMetadata, plain_default, read_default

if TYPE_CHECKING:
    from sandbox.tools.docstrings import Documentation

Extra = Literal["forbid", "ignore", "allow"]
_ENUMS: Final = frozenset({"Enum", "StrEnum", "IntEnum"})
_NO_FIELDS: Final = frozenset({"ClassVar", "KW_ONLY"})


class ClassKind(StrEnum):
    """The kinds of classes that JSON can represent."""

    ROOT_MODEL = "root_model"
    MODEL = "model"
    DATACLASS = "dataclass"
    TYPED_DICT = "typed_dict"
    NAMED_TUPLE = "named_tuple"
    ENUM = "enum"


_BASES: Final = {
    "RootModel": ClassKind.ROOT_MODEL,
    "BaseModel": ClassKind.MODEL,
    "TypedDict": ClassKind.TYPED_DICT,
    "NamedTuple": ClassKind.NAMED_TUPLE,
    **dict.fromkeys(sorted(_ENUMS), ClassKind.ENUM),
}


@dataclass(frozen=True, slots=True)
class ClassField:
    """A member, as its class declares it."""

    name: str
    annotation: ast.expr
    metadata: FieldMetadata = field(default_factory=FieldMetadata)
    description: str | None = None
    is_required_by_form: bool = True
    owner: str = ""
    """The class that declares it."""


def class_kind(scope: Scope, node: ast.ClassDef) -> ClassKind | None:
    """Return the kind of a class, or None if JSON has no form for it."""
    bases = scope.base_names(node)
    kind = next((kind for name, kind in _BASES.items() if name in bases), None)
    if kind is not None:
        return kind
    chain = scope.class_chain(node)
    marks = (last_name(mark) or "" for each in chain for mark in each.decorator_list)
    is_dataclass = any(scope.imports.get(name, name).rpartition(".")[2] == "dataclass" for name in marks)
    return ClassKind.DATACLASS if is_dataclass else None


def class_fields(scope: Scope, node: ast.ClassDef, kind: ClassKind) -> list[ClassField]:
    """Return the members of a class and its bases, in the order of Python; a class overrides its bases."""
    chain = list(scope.class_chain(node))[::-1]
    documented = [said for each in chain if (said := _documentation(each)) is not None]
    described = {name: text for said in documented for name, text in said.parameters.items() if text}
    found: dict[str, ClassField] = {}
    for each in chain:
        for member in _own_fields(scope, each, kind, described):
            found[member.name] = member
    return list(found.values())


def class_description(node: ast.ClassDef) -> str | None:
    """Return the description in the docstring of a class."""
    documentation = _documentation(node)
    return None if documentation is None else documentation.description


def _documentation(node: ast.ClassDef) -> Documentation | None:
    text = docstring_of(node)
    if text is None:
        return None
    from sandbox.tools.docstrings import read_docstring

    return read_docstring(text)


def root_field(scope: Scope, node: ast.ClassDef) -> ClassField | None:
    """Return the content of a root model: its `root`, or the argument of `RootModel[list[str]]`."""
    declared = next((each for each in class_fields(scope, node, ClassKind.ROOT_MODEL) if each.name == "root"), None)
    bases = [base for each in scope.class_chain(node) for base in each.bases if last_name(base) == "RootModel"]
    held = [base.slice for base in bases if isinstance(base, ast.Subscript)]
    return declared or next((ClassField("root", each) for each in held), None)


def enum_values(scope: Scope, node: ast.ClassDef) -> list[JSON] | None:
    """Return the values of its members; None when one of them is not written out, or has no JSON form."""
    is_text = "StrEnum" in scope.base_names(node)
    values: list[JSON] = []
    for statement in node.body:
        for name, value in assignments(statement):
            if name.startswith("_"):
                continue
            found = _enum_value(scope, name, value, values, is_text=is_text)
            if found is None or isinstance(found, list | dict):
                return None
            values.append(found)
    return values


def made_fields(call: ast.Call) -> tuple[ClassKind, list[ClassField]] | None:
    """Return the members of `TypedDict("Name", {"key": type})` and of `NamedTuple("Name", [("key", type)])`."""
    members = call.args[1] if len(call.args) == 2 else None
    if last_name(call.func) == "TypedDict" and isinstance(members, ast.Dict):
        kind, pairs = ClassKind.TYPED_DICT, list(zip(members.keys, members.values, strict=True))
    elif last_name(call.func) == "NamedTuple" and isinstance(members, ast.List | ast.Tuple):
        listed = [each.elts for each in members.elts if isinstance(each, ast.Tuple) and len(each.elts) == 2]
        kind, pairs = ClassKind.NAMED_TUPLE, [(name, value) for name, value in listed]
    else:
        return None
    total = is_total(call.keywords)
    return kind, [
        ClassField(key.value, value, is_required_by_form=_is_required(value, total=total))
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]


def made_values(scope: Scope, call: ast.Call) -> list[JSON] | None:
    """Return the values of `Enum("Name", "RED GREEN")`; None where they are not written out, or no enum is made."""
    made = last_name(call.func)
    if made not in _ENUMS or len(call.args) != 2:
        return None
    try:
        members = literal(call.args[1], scope.constant)
    except NotLiteral:
        return None
    if isinstance(members, dict):
        return _plain_values(list(members.values()))
    listed = members.replace(",", " ").split() if isinstance(members, str) else members
    if not isinstance(listed, list | tuple):
        return None
    pairs = [each for each in listed if isinstance(each, list | tuple) and len(each) == 2]
    if len(pairs) == len(listed):
        return _plain_values([pair[1] for pair in pairs])
    names = [each for each in listed if isinstance(each, str)]
    if call.keywords or len(names) < len(listed):
        return None
    return [name.lower() if made == "StrEnum" else number for number, name in enumerate(names, start=1)]


def _plain_values(values: list[object]) -> list[JSON] | None:
    plain = [value for value in values if isinstance(value, str | int | float)]
    return list(plain) if len(plain) == len(values) else None


def extra_of(scope: Scope, node: ast.ClassDef, kind: ClassKind) -> Extra | None:
    """Return the rule of a class for members that it does not name."""
    for each in scope.class_chain(node):
        for config in _configs(each, kind):
            value = plain_default(config, scope)
            if value == "forbid":
                return "forbid"
            if value == "ignore":
                return "ignore"
            if value == "allow":
                return "allow"
    return None


def is_total(keywords: list[ast.keyword]) -> bool:
    """Return whether a TypedDict requires its members."""
    return not any(
        each.arg == "total" and isinstance(each.value, ast.Constant) and each.value.value is False for each in keywords
    )


def _own_fields(scope: Scope, node: ast.ClassDef, kind: ClassKind, said: Mapping[str, str]) -> Iterator[ClassField]:
    total = is_total(node.keywords)
    for position, statement in enumerate(node.body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, form = statement.target.id, last_name(statement.annotation)
        is_constant = form in _NO_FIELDS or (form == "Final" and statement.value is not None)
        if is_constant or (name.startswith("_") and kind is ClassKind.MODEL) or name == "model_config":
            continue
        yield ClassField(
            name=name,
            annotation=statement.annotation,
            metadata=read_default(statement.value, scope),
            description=_text_below(node, position) or said.get(name),
            is_required_by_form=_is_required(statement.annotation, total=total),
            owner=node.name,
        )


def _is_required(annotation: ast.expr, *, total: bool) -> bool:
    """Return whether a member of a TypedDict is, by what its annotation says or by what the class says of all."""
    form = last_name(annotation)
    return form == "Required" or (total and form != "NotRequired")


def _text_below(node: ast.ClassDef, position: int) -> str | None:
    """Return the string that stands on its own under a member, which documents it."""
    below = node.body[position + 1] if position + 1 < len(node.body) else None
    value = below.value if isinstance(below, ast.Expr) else None
    text = value.value if isinstance(value, ast.Constant) else None
    return text.strip() or None if isinstance(text, str) else None


def _enum_value(scope: Scope, name: str, value: ast.expr, before: list[JSON], *, is_text: bool) -> JSON:
    if isinstance(value, ast.Call) and last_name(value.func) == "auto":
        last = before[-1] if before else 0
        return name.lower() if is_text else (last + 1 if isinstance(last, int) else len(before) + 1)
    try:
        found: JSON = literal(value, scope.constant)
    except NotLiteral:
        return None
    return found if isinstance(found, str | int | float) else None


def _configs(node: ast.ClassDef, kind: ClassKind) -> Iterator[ast.expr]:
    """Yield the expressions that `extra` is given as."""
    if kind is not ClassKind.MODEL:
        return
    yield from (each.value for each in node.keywords if each.arg == "extra")
    for statement in node.body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Config":
            yield from (value for each in statement.body for name, value in assignments(each) if name == "extra")
        for name, value in assignments(statement):
            if name == "model_config" and isinstance(value, ast.Call):
                yield from (each.value for each in value.keywords if each.arg == "extra")
            elif name == "model_config" and isinstance(value, ast.Dict):
                yield from _member(value, "extra")


def _member(node: ast.Dict, name: str) -> Iterator[ast.expr]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == name:
            yield value
