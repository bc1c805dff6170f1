"""Find the meaning of annotations, by walking over their syntax trees with the tables in `known_types`.

No name is looked up in a module and nothing is evaluated, because an annotation is untrusted text. A name means a class
or an alias of the same source, or an import. A name that neither the source nor the tables know is `Any`, so that a
call can continue and the tool's own code decides in the box; `OnUnknown` reports it, with the place.

A type that contains itself is closed by a `RecursiveType`. Types that hold each other multiply, so a type made of too
many is `Any` too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from sandbox.tools.plain_json import JSON
from sandbox.tools.syntax.scope import Scope, dotted_name, last_name
from sandbox.tools.types.annotation_syntax import (
    MAX_ANNOTATION_DEPTH,
    arguments,
    is_shallow,
    literal_value,
    names_none,
    node_text,
    own_name,
    spelling,
    union_members,
    well_known_name,
    why_unknown,
    words_of,
)
from sandbox.tools.types.class_fields import (
    ClassField,
    ClassKind,
    class_description,
    class_fields,
    class_kind,
    enum_values,
    extra_of,
    made_fields,
    made_values,
    root_field,
)
from sandbox.tools.types.field_metadata import ABSENT, FieldMetadata, read_annotated_extra
from sandbox.tools.types.known_types import ARRAYS, CALLED_ARRAYS, FORMS, MAPPINGS, PLAIN, SETS, TUPLES, special_type
from sandbox.tools.types.pydantic_types import FieldType, RecursiveType, ValueType
from sandbox.tools.types.source_types import AnnotationPlace, SourceTypes, bounds_of, given_for, parameters_of
from sandbox.tools.types.value_types import (
    ANYTHING,
    NULL,
    array_of,
    constrain,
    fixed_array_of,
    object_of,
    one_of,
    one_of_values,
    record_of,
    recursive_use,
    without_itself,
)

MAX_TYPES: Final = 2000
_TOO_DEEP: Final = "it is nested too deeply"

OnUnknown = Callable[[ast.AST, str, str], None]
"""Called for a part of an annotation that is not understood, with the node, its name, and the reason."""


def _ignore(node: ast.AST, what: str, why: str) -> None:
    """Ignore what is not understood."""


class AnnotationReader:
    """A reader for the annotations of one source; it reads each class and alias once.

    Arguments and results differ: a model can write a list of strings, so a list without an item type is shown as such
    for arguments; a result has a field under its own name, whatever its alias is.
    """

    def __init__(
        self,
        scope: Scope,
        on_unknown: OnUnknown = _ignore,
        *,
        is_returned: bool = False,
        declared: SourceTypes | None = None,
    ) -> None:
        self._scope = scope
        self._on_unknown = on_unknown
        self._is_returned = is_returned
        self._known = SourceTypes() if declared is None else declared
        self._open: dict[str, RecursiveType] = {}
        self._reported: set[str] = set()
        self._place = AnnotationPlace()

    @property
    def cells(self) -> Mapping[str, RecursiveType]:
        """The types that contain themselves."""
        return self._known.cells

    def read_type(self, node: ast.expr) -> tuple[ValueType, FieldMetadata]:
        """Return the type of a parameter or a member, and the metadata in its annotation."""
        metadata = FieldMetadata()
        found = self._resolve(node, depth=0, metadata=metadata)
        return found, metadata

    def with_constraints(self, base: ValueType, metadata: FieldMetadata, node: ast.AST) -> ValueType:
        """Return the type with the constraints that were said of it."""
        for fault in metadata.faults:
            self._report(fault, "a constraint", "it is not a literal")
        if not metadata.constraints:
            return base
        if not self._known.affords(repr(metadata.constraints), metadata.constraints.get("pattern")):
            self._report(node, "a constraint", "the source has too many, or patterns that are too large")
            return base
        try:
            return constrain(base, metadata.constraints)
        except ValueError as error:
            self._report(node, f"the constraints {', '.join(metadata.constraints)}", str(error))
            return base

    def admits_none(self, annotation: ast.expr | None) -> bool:
        """Return whether None is one of the values that an annotation, or what it is an alias of, names."""
        name = None if annotation is None else own_name(annotation, self._scope, within=self._place.within)
        if name is None:
            return names_none(annotation, self._scope, within=self._place.within)
        place = f"{self._place.within}:{name}"
        if place not in self._known.nullable:
            self._known.nullable[place] = names_none(annotation, self._scope, within=self._place.within)
        return self._known.nullable[place]

    def _resolve(self, node: ast.expr, *, depth: int, metadata: FieldMetadata | None = None) -> ValueType:
        if depth > MAX_ANNOTATION_DEPTH or (depth == 0 and not is_shallow(node)):
            return self._unknown(node, "an annotation", _TOO_DEEP)
        members = union_members(node, self._scope)
        if len(members) == 1:
            return self._bounded(node, self._resolve_one(members[0], depth=depth, metadata=metadata))
        distinct = list({spelling(each): each for each in members}.values())
        resolved = [self._resolve_one(member, depth=depth) for member in distinct]
        return self._bounded(node, resolved[0] if len(resolved) == 1 else one_of(resolved))

    def _bounded(self, node: ast.AST, found: ValueType) -> ValueType:
        return found if found.size <= MAX_TYPES else self._unknown(node, "an annotation", "it holds too many types")

    def _resolve_one(self, node: ast.expr, *, depth: int, metadata: FieldMetadata | None = None) -> ValueType:
        if isinstance(node, ast.Constant) and node.value is None:
            return NULL
        if isinstance(node, ast.Name) and node.id in self._place.bound:
            return self._place.bound[node.id]
        if (own := self._own(node.value if isinstance(node, ast.Subscript) else node)) is not None:
            return self._declared(own[0], own[1], node, depth=depth)
        if isinstance(node, ast.Call):
            return self._resolve_call(node, depth=depth)
        if not isinstance(node, ast.Subscript):
            return self._bare(node)
        return self._generic(
            node, well_known_name(node.value, self._scope), arguments(node), depth=depth + 1, metadata=metadata
        )

    def _bare(self, node: ast.expr) -> ValueType:
        name = well_known_name(node, self._scope)
        if name in ARRAYS or name in TUPLES:
            return array_of(ANYTHING, is_unique=name in SETS, shows_text=not self._is_returned)
        if name in MAPPINGS:
            return object_of(ANYTHING, shows_members=False)
        if name in PLAIN:
            return PLAIN[name]
        dotted = dotted_name(node)
        special = None if dotted is None else special_type(self._scope.full_name(dotted))
        return special or self._unknown(node, node_text(node), why_unknown(dotted, self._scope))

    def _generic(
        self, node: ast.expr, name: str | None, arguments: list[ast.expr], *, depth: int, metadata: FieldMetadata | None
    ) -> ValueType:
        if name in ARRAYS and len(arguments) == 1:
            return array_of(self._resolve(arguments[0], depth=depth), is_unique=name in SETS)
        if name in MAPPINGS and len(arguments) == 2:
            return object_of(self._resolve(arguments[1], depth=depth))
        if name in TUPLES:
            return self._tuple(arguments, depth=depth)
        if name == "Annotated" and arguments:
            return self._resolve_annotated(node, arguments, depth=depth, metadata=metadata)
        if name in FORMS and name not in ("Annotated", "Literal", "Union", "Optional") and len(arguments) == 1:
            return self._resolve(arguments[0], depth=depth, metadata=metadata)
        if name == "Literal":
            return self._literal(node, arguments)
        return self._unknown(node, node_text(node), why_unknown(dotted_name(getattr(node, "value", node)), self._scope))

    def _resolve_annotated(
        self, node: ast.expr, arguments: list[ast.expr], *, depth: int, metadata: FieldMetadata | None
    ) -> ValueType:
        """Return the type of the first argument with the metadata of the others."""
        inner = self._resolve(arguments[0], depth=depth, metadata=metadata)
        said = FieldMetadata()
        for extra in arguments[1:]:
            said.add(read_annotated_extra(extra, self._scope))
        if metadata is not None:
            metadata.add(said)
        elif said.description:
            said.constraints["description"] = said.description
        return self.with_constraints(inner, said, node)

    def _tuple(self, arguments: list[ast.expr], *, depth: int) -> ValueType:
        last = arguments[-1] if arguments else None
        if len(arguments) == 2 and isinstance(last, ast.Constant) and last.value is Ellipsis:
            return array_of(self._resolve(arguments[0], depth=depth))
        return fixed_array_of([self._resolve(each, depth=depth) for each in arguments])

    def _literal(self, node: ast.expr, arguments: list[ast.expr]) -> ValueType:
        values: list[JSON] = []
        for argument in arguments:
            constant = self._scope.constant(dotted_name(argument) or "")
            value = literal_value(argument if constant is None else constant)
            if isinstance(value, list):
                return self._unknown(argument, node_text(node), "its members are strings, integers, booleans or None")
            values.append(value)
        return one_of_values(tuple(values)) if values else self._unknown(node, "Literal", "it has no members")

    def _resolve_call(self, node: ast.Call, *, depth: int) -> ValueType:
        """Resolve calls such as `conint(ge=1)`."""
        base = self._resolve_array_call(node, depth=depth) or special_type(f"pydantic.{last_name(node.func)}")
        if base is None:
            return self._unknown(node, node_text(node), "it would have to be executed")
        said = read_annotated_extra(
            ast.Call(func=ast.Name("Field", ast.Load()), args=[], keywords=node.keywords), self._scope
        )
        return self.with_constraints(base, said, node)

    def _resolve_array_call(self, node: ast.Call, *, depth: int) -> ValueType | None:
        """Resolve calls such as `conlist(int, min_length=1)`."""
        is_unique = CALLED_ARRAYS.get(last_name(node.func) or "")
        items = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "item_type")]
        return (
            None
            if is_unique is None or not items
            else array_of(self._resolve(items[0], depth=depth + 1), is_unique=is_unique)
        )

    def _own(self, node: ast.expr) -> tuple[str, ast.ClassDef | ast.expr] | None:
        dotted = dotted_name(node)
        return None if dotted is None else self._scope.own(dotted, within=self._place.within)

    def _declared(self, name: str, definition: ast.ClassDef | ast.expr, used: ast.expr, *, depth: int) -> ValueType:
        """Return a class or an alias of the source, with the types that are said of its variables."""
        said = self._said_of(definition, used, depth=depth)
        key = self._known.name_of(name, said, words_of(used))
        if key in self._known.types:
            return self._read_before(key)
        if key in self._open:
            self._known.cells[key] = self._open[key]
            return recursive_use(self._open[key])
        cell = self._open[key] = RecursiveType(key)
        with self._place.binding(said if key != name else {}):
            found = (
                self._class(name, definition, used, depth=depth + 1)
                if isinstance(definition, ast.ClassDef)
                else self._alias(definition, depth=depth + 1)
            )
        del self._open[key]
        found = without_itself(found, cell)
        cell.type = found
        self._reported.add(key)
        self._known.types[key] = recursive_use(cell) if key in self._known.cells else found
        return self._known.types[key]

    def _said_of(self, definition: ast.ClassDef | ast.expr, used: ast.expr, *, depth: int) -> dict[str, ValueType]:
        """Return the types that a use gives for the variables of what it uses."""
        if not isinstance(used, ast.Subscript):
            return {}
        given = given_for(parameters_of(definition, self._scope), used)
        return {name: self._resolve(node, depth=depth + 1) for name, node in given}

    def _read_before(self, name: str) -> ValueType:
        """Return a known type, and report what was not understood in it, once for each reader."""
        if name not in self._reported:
            self._reported.add(name)
            for fault in self._known.faults.get(name, []):
                self._report(*fault)
        return self._known.types[name]

    def _alias(self, value: ast.expr, *, depth: int) -> ValueType:
        """Resolve the target of an alias, such as `Ids = list[int]`; of the calls, those that make types."""
        made = last_name(value.func) if isinstance(value, ast.Call) else None
        if not isinstance(value, ast.Call):
            return self._resolve(value, depth=depth)
        if made in ("TypeVar", "ParamSpec"):
            return self._variable(value, depth=depth)
        if made == "NewType" and len(value.args) == 2:
            return self._resolve(value.args[1], depth=depth)
        if made == "TypeAliasType" and len(value.args) == 2:
            return self._resolve(value.args[1], depth=depth)
        return self._resolve_made_class(value, depth=depth)

    def _variable(self, call: ast.Call, *, depth: int) -> ValueType:
        """Return the type of a variable without a value: its bound, or anything if the bound is not understood."""
        on_unknown, self._on_unknown = self._on_unknown, _ignore
        found = [self._resolve(each, depth=depth) for each in bounds_of(call)]
        self._on_unknown = on_unknown
        return one_of(found) if found else ANYTHING

    def _resolve_made_class(self, call: ast.Call, *, depth: int) -> ValueType:
        """Return a class that is made by a call: `TypedDict("Name", {"key": type})`, `Enum("Name", "RED GREEN")`."""
        if (made := made_fields(call)) is not None:
            kind, fields = made
            name = call.args[0].value if isinstance(call.args[0], ast.Constant) else ""
            return record_of([self._field(each, kind, depth=depth) for each in fields], name=str(name))
        values = made_values(self._scope, call)
        return one_of_values(tuple(values)) if values else self._resolve_call(call, depth=depth)

    def _class(self, name: str, node: ast.ClassDef, used: ast.expr, *, depth: int) -> ValueType:
        kind = class_kind(self._scope, node)
        if kind is ClassKind.ENUM:
            return self._enum(node, used)
        if kind is None:
            return self._unknown(
                used, name, "it is a class of this source, but no model, dataclass, TypedDict, NamedTuple or Enum"
            )
        if depth > MAX_ANNOTATION_DEPTH:
            return self._unknown(used, name, _TOO_DEEP)
        docstring = class_description(node)
        with self._place.inside(name):
            if kind is ClassKind.ROOT_MODEL:
                return self._root(node, used, docstring, depth=depth)
            found = [each for each in class_fields(self._scope, node, kind) if not self._is_left_out(each)]
            bound = self._bound_in(node, depth=depth)
            fields = [self._field(each, kind, depth=depth, bound=bound.get(each.owner)) for each in found]
        if kind is ClassKind.NAMED_TUPLE:
            return record_of(fields, name=node.name, description=docstring)
        return record_of(fields, name=node.name, extra=extra_of(self._scope, node, kind), description=docstring)

    def _bound_in(self, node: ast.ClassDef, *, depth: int) -> dict[str, Mapping[str, ValueType]]:
        """Return the types that the variables of a class, and of its bases, stand for."""
        bound: dict[str, Mapping[str, ValueType]] = {node.name: self._place.bound}
        for each in self._scope.class_chain(node):
            for base in each.bases:
                owner = self._scope.definitions.get(last_name(base) or "")
                if isinstance(base, ast.Subscript) and isinstance(owner, ast.ClassDef):
                    with self._place.binding(bound.get(each.name, {})):
                        bound.setdefault(owner.name, self._said_of(owner, base, depth=depth))
        return bound

    def _root(self, node: ast.ClassDef, used: ast.expr, docstring: str | None, *, depth: int) -> ValueType:
        """Return a model that is what it holds."""
        declared = root_field(self._scope, node)
        if declared is None:
            return self._unknown(used, node.name, "it does not say what its root is")
        bound = self._bound_in(node, depth=depth).get(declared.owner)
        found = self._field(declared, ClassKind.ROOT_MODEL, depth=depth, bound=bound).type
        said = FieldMetadata(constraints={"description": docstring} if docstring else {})
        return self.with_constraints(found, said, used)

    def _is_left_out(self, declared: ClassField) -> bool:
        return declared.metadata.is_unreturned if self._is_returned else declared.metadata.is_left_out

    def _enum(self, node: ast.ClassDef, used: ast.expr) -> ValueType:
        values = enum_values(self._scope, node)
        if not values:
            return self._unknown(used, node.name, "its members are not written out as strings, numbers or booleans")
        return one_of_values(tuple(values))

    def _field(
        self,
        declared: ClassField,
        kind: ClassKind,
        *,
        depth: int,
        bound: Mapping[str, ValueType] | None = None,
    ) -> FieldType:
        said = FieldMetadata()
        with self._place.binding(bound or {}):
            found = self._resolve(declared.annotation, depth=depth, metadata=said)
        said.add(declared.metadata)
        if declared.metadata.constraints:
            found = self.with_constraints(found, declared.metadata, declared.annotation)
        is_optional = self.admits_none(declared.annotation)
        by_form = kind is ClassKind.TYPED_DICT
        required = declared.is_required_by_form if by_form else not said.has_default and not is_optional
        return FieldType(
            name=declared.name if self._is_returned else said.alias or declared.name,
            type=found,
            is_required=required,
            is_optional=is_optional,
            default=None if said.default is ABSENT else said.default,
            description=said.description or declared.description,
            fills_none=is_optional and not by_form and not said.has_default,
        )

    def _unknown(self, node: ast.AST, what: str, why: str) -> ValueType:
        self._report(node, what, why)
        return ANYTHING

    def _report(self, node: ast.AST, what: str, why: str) -> None:
        for name in self._open:
            self._known.faults.setdefault(name, []).append((node, what, why))
        self._on_unknown(node, what, why)
