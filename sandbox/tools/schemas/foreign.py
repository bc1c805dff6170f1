"""Import schemas written by others: complete objects, references written out, unions without repeated members.

Servers leave out what JSON Schema lets them leave out, but models and strict mode need it: an object says which
properties it has, which it requires, and whether it takes others. An object that lists properties takes no others
unless it says so; an object that lists none takes any.

References are written out up to ten levels deep. A reference stays, with the definitions it needs, if it is recursive
or if the schema would become too large, so nothing is lost. A reference that leads out of the schema is refused;
nothing is ever fetched.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.export_base import remove_duplicates
from sandbox.tools.schemas.nodes import (
    ANNOTATIONS,
    DEFINITIONS,
    ROOT,
    UNIONS,
    Schema,
    SchemaFinding,
    members_of,
    recursive_references,
    resolve,
    target,
    types_of,
    with_children,
)
from sandbox.tools.schemas.validator import validator

MAX_REFERENCE_DEPTH: Final = 10
_MAX_NODES: Final = 20_000
_MAX_NODE_DEPTH: Final = 40
_OF_DOCUMENTS: Final = ("$schema", "$id")


class Import(NamedTuple):
    """A schema in our shape, and what could not be brought into it."""

    schema: Schema
    losses: tuple[SchemaFinding, ...]


def import_schema(schema: object) -> Import:
    """Return a foreign schema of parameters in our shape; raise `SchemaRefused` if it is invalid or not complete."""
    root = validator(schema).schema
    inlining = _Inlining(root)
    described = _top(root)
    inlined = inlining.node(described, ROOT)
    if inlining.kept:
        inlined |= {keyword: root[keyword] for keyword in DEFINITIONS if keyword in root}
    return Import(_normal(_with_properties(inlined), ROOT), tuple(inlining.kept))


def _top(root: Schema) -> Schema:
    """Return the top level, written out even where it is recursive: what a tool takes is an object by itself."""
    said = {keyword: value for keyword, value in root.items() if keyword not in (*DEFINITIONS, *_OF_DOCUMENTS)}
    found = target(root, root)
    if "$ref" not in said or said.keys() - ANNOTATIONS - {"$ref"} or not isinstance(found, dict):
        return said
    del said["$ref"]
    return {**found, **said}


class _Inlining:
    """Writes out references of one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._recursive = recursive_references(root)
        self._nodes = 0
        self._open = 0
        self._depth = 0
        self.kept: list[SchemaFinding] = []

    def node(self, node: Schema, path: str) -> Schema:
        self._nodes += 1
        self._depth += 1
        try:
            found = self._meant(node, path)
            return with_children(node, self.node, path) if found is None else self._written_out(node, found, path)
        finally:
            self._depth -= 1

    def _meant(self, node: Schema, path: str) -> Schema | None:
        """Return the schema that can be written in place of the node."""
        if "$ref" not in node:
            return None
        found = resolve(self._root, node["$ref"])
        reason = self._against(node)
        if reason is None and isinstance(found, dict):
            return found
        self.kept.append(SchemaFinding(path, f"stays a reference: {reason or 'it refers to no object'}"))
        return None

    def _against(self, node: Schema) -> str | None:
        """Return why the reference of a node cannot be written out, or None."""
        if node["$ref"] in self._recursive:
            return "it is recursive"
        if node.keys() - ANNOTATIONS - {"$ref"}:
            return "it adds to what it refers to"
        if self._open >= MAX_REFERENCE_DEPTH or self._depth > _MAX_NODE_DEPTH:
            return f"it is more than {MAX_REFERENCE_DEPTH} references or {_MAX_NODE_DEPTH} levels deep"
        return "the schema would become too large" if self._nodes > _MAX_NODES else None

    def _written_out(self, node: Schema, found: Schema, path: str) -> Schema:
        said = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
        self._open += 1
        try:
            return {**self.node(found, path), **said}
        finally:
            self._open -= 1


def _with_properties(root: Schema) -> Schema:
    """Return the top level is the tool's parameters: nothing listed means that it has none."""
    given: Schema = {"type": "object", "properties": {}, **root}
    return given if "additionalProperties" in given else {**given, "additionalProperties": False}


def _normal(node: Schema, path: str) -> Schema:
    copied = with_children(node, _normal, path)
    for keyword in UNIONS:
        if keyword in copied:
            copied[keyword] = remove_duplicates(members_of(copied, keyword))
    if isinstance(copied.get("type"), list):
        names: list[JSON] = [*types_of(copied)]
        copied["type"] = names if len(names) > 1 else names[0]
    if "object" not in types_of(copied):
        return copied
    complete: Schema = {"properties": {}, "required": [], **copied}
    complete.setdefault("additionalProperties", not complete["properties"])
    return complete
