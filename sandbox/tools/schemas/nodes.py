"""JSON schemas as trees: places and findings, the schemas inside a node, references, and copies of foreign values.

Only a value in the place of a schema is treated as a schema, so a property named `$ref` or `type` is a property. A
value in such a place need not be a schema in foreign documents; callers have to check.

A `$ref` leads to a place inside its own document, or nowhere: nothing is ever fetched, and chains of references end
after 64 steps. Every foreign schema is first copied into plain values: a tree, bounded in size, with at most a hundred
levels, so that every function here may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import unquote

from sandbox.tools.plain_json import JSON, MAX_DEPTH, NotPlain, PlainCopy
from sandbox.tools.safe_text import NAME_LENGTH, excerpt

ROOT: Final = "root"
MAX_FINDINGS: Final = 100


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """A fault or a loss, at one place of a schema or a document."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def under(path: str, step: str | int) -> str:
    """Return the path of a member or an item of what `path` leads to."""
    return f"{path}[{step}]" if isinstance(step, int) else f"{path}.{excerpt(step, NAME_LENGTH)}"


def path_of(steps: Sequence[str | int]) -> str:
    """Return the path of these steps from the root on."""
    path = ROOT
    for step in steps:
        path = under(path, step)
    return path


Schema: TypeAlias = dict[str, JSON]
Change: TypeAlias = Callable[[Schema, str], Schema]

UNIONS: Final = ("anyOf", "oneOf", "allOf")
LISTS: Final = (*UNIONS, "prefixItems")
DEFINITIONS: Final = ("$defs", "definitions")
NAMED: Final = ("properties", "patternProperties", "dependentSchemas", *DEFINITIONS)
SINGLE: Final = (
    *("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    *("additionalItems", "contentSchema", "not", "if", "then", "else"),
)
TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)


def children(node: Schema, path: str) -> Iterator[tuple[str, JSON]]:
    """Yield everything directly below the node that stands where a schema belongs, with its path."""
    for keyword, value in node.items():
        place = under(path, keyword)
        if keyword in SINGLE:
            yield place, value
        elif keyword in LISTS and isinstance(value, list):
            yield from ((under(place, position), member) for position, member in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from ((under(place, name), member) for name, member in value.items())


def with_children(node: Schema, change: Change, path: str) -> Schema:
    """Return a copy of the node in which `change` has been applied to every schema directly below it."""

    def changed(value: JSON, place: str) -> JSON:
        return change(value, place) if isinstance(value, dict) else value

    copied: Schema = {}
    for keyword, value in node.items():
        place = under(path, keyword)
        if keyword in SINGLE:
            copied[keyword] = changed(value, place)
        elif keyword in LISTS and isinstance(value, list):
            copied[keyword] = [changed(member, under(place, position)) for position, member in enumerate(value)]
        elif keyword in NAMED and isinstance(value, dict):
            copied[keyword] = {name: changed(member, under(place, name)) for name, member in value.items()}
        else:
            copied[keyword] = value
    return copied


def walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield every node of a schema, outer ones first."""
    waiting: list[tuple[str, JSON]] = [(path, schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            yield place, node
            waiting.extend(reversed(list(children(node, place))))


def types_of(node: Schema) -> list[str]:
    """Return the types of a node, each once; `properties` or `items` without `type` means an object or an array."""
    given = node.get("type")
    if given is None:
        return _implied_types(node)
    return list(dict.fromkeys(name for name in (given if isinstance(given, list) else [given]) if name in TYPES))


def _implied_types(node: Schema) -> list[str]:
    if "$ref" in node or any(keyword in node for keyword in UNIONS):
        return []
    if "properties" in node or "additionalProperties" in node:
        return ["object"]
    return ["array"] if "items" in node or "prefixItems" in node else []


def properties_of(node: Schema) -> Schema:
    """Return the properties a node lists."""
    given = node.get("properties")
    return given if isinstance(given, dict) else {}


def required_of(node: Schema) -> list[str]:
    """Return the names a node requires."""
    given = node.get("required")
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def members_of(node: Schema, keyword: str) -> list[JSON]:
    """Return the schemas in a list of them."""
    given = node.get(keyword)
    return given if isinstance(given, list) else []


_MAX_CHAIN_LENGTH: Final = 64


def is_local(reference: JSON) -> bool:
    """Return whether a reference stays inside its document."""
    return isinstance(reference, str) and reference.startswith("#")


def resolve(root: Schema, reference: JSON) -> JSON:
    """Return the value that a reference points to, which may be another reference; None if it points nowhere."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    place: JSON = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        place = _entered(place, name)
    return place


def target(root: Schema, node: JSON) -> JSON:
    """Return the node itself, or the end of the chain of references that starts there; None when it has no end."""
    for _ in range(_MAX_CHAIN_LENGTH):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        node = resolve(root, node["$ref"])
    return None


def _entered(place: JSON, name: str) -> JSON:
    if isinstance(place, dict):
        return place.get(name)
    if isinstance(place, list) and name.isascii() and name.isdigit() and len(name) <= 9 and int(name) < len(place):
        return place[int(name)]
    return None


_Arrows = dict[str, set[str]]


def recursive_references(root: Schema) -> frozenset[str]:
    """Return the references that can be followed without end."""
    arrows = _arrows(root)
    return frozenset(_without_ends(_reversed(_without_ends(arrows))))


def _arrows(root: Schema) -> _Arrows:
    arrows: _Arrows = {}
    waiting = list(_references_in(root))
    while waiting:
        reference = waiting.pop()
        if reference not in arrows:
            found = resolve(root, reference)
            arrows[reference] = _references_in(found) if isinstance(found, dict) else set()
            waiting.extend(arrows[reference])
    return arrows


def _references_in(schema: Schema) -> set[str]:
    found = (node.get("$ref") for _, node in walk(schema, ROOT))
    return {reference for reference in found if isinstance(reference, str)}


def _without_ends(arrows: _Arrows) -> _Arrows:
    """Return the graph without nodes that lead nowhere, removed again and again."""
    leading_to = _reversed(arrows)
    left = {name: len(targets) for name, targets in arrows.items()}
    ends = [name for name, count in left.items() if count == 0]
    gone = set(ends)
    while ends:
        for name in leading_to[ends.pop()]:
            left[name] -= 1
            if left[name] == 0:
                ends.append(name)
                gone.add(name)
    return {name: targets - gone for name, targets in arrows.items() if name not in gone}


def _reversed(arrows: _Arrows) -> _Arrows:
    turned: _Arrows = {name: set() for name in arrows}
    for name, targets in arrows.items():
        for reached in targets:
            turned[reached].add(name)
    return turned


MAX_LEVELS: Final = 100


class UnreadableSchema(Exception):
    """A value that is not a JSON object and so cannot be a schema; `finding` says why."""

    def __init__(self, finding: SchemaFinding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def plain_schema(schema: object) -> Schema:
    """Return a copy as plain JSON values, or `UnreadableSchema`."""
    try:
        plain = PlainCopy().copy(schema, depth=MAX_DEPTH - MAX_LEVELS)
    except NotPlain as fault:
        raise UnreadableSchema(SchemaFinding(path_of(fault.path[:MAX_LEVELS]), _of_schemas(fault.message))) from None
    except Exception as fault:  # an object may answer its reader with anything
        raise UnreadableSchema(SchemaFinding(ROOT, f"cannot be read: {type(fault).__name__}")) from None
    if not isinstance(plain, dict):
        raise UnreadableSchema(SchemaFinding(ROOT, "is not an object: a schema is a dict"))
    return plain


def is_tool(schema: Schema) -> bool:
    """Return whether this is a tool's schema, and not that of its parameters."""
    return "parameters" in schema and "type" not in schema


def parameters_of(schema: Schema) -> Schema:
    """Return the schema of the parameters."""
    if not is_tool(schema):
        return schema
    parameters = schema["parameters"]
    if not isinstance(parameters, dict):
        raise UnreadableSchema(SchemaFinding(ROOT, "`parameters` is not an object: a schema is a dict"))
    return parameters


def _of_schemas(message: str) -> str:
    return message.replace("the arguments", "the schema").replace(f"{MAX_DEPTH} levels", f"{MAX_LEVELS} levels")
