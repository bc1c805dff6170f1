"""What is said about places of a schema or of a document: a path such as `root.properties.a.items`, and a sentence."""

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
    """One thing that is wrong, or was lost, at one place."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def under(path: str, step: str | int) -> str:
    """The path of a member or an item of what `path` leads to."""
    return f"{path}[{step}]" if isinstance(step, int) else f"{path}.{excerpt(step, NAME_LENGTH)}"


def path_of(steps: Sequence[str | int]) -> str:
    """The path of these steps from the root on."""
    path = ROOT
    for step in steps:
        path = under(path, step)
    return path


# How JSON schemas nest: which keywords of a node hold further schemas, and copies with those schemas changed.
#
# Only what stands in the place of a schema is looked at as one, so a property that happens to be called `$ref` or
# `type`
# is a property. What is in such a place need not be a schema: whoever walks over strangers' schemas has to look.


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
    """Everything that stands where a schema belongs, directly below the node, with its path."""
    for keyword, value in node.items():
        place = under(path, keyword)
        if keyword in SINGLE:
            yield place, value
        elif keyword in LISTS and isinstance(value, list):
            yield from ((under(place, position), member) for position, member in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from ((under(place, name), member) for name, member in value.items())


def with_children(node: Schema, change: Change, path: str) -> Schema:
    """A copy of the node in which `change` has been applied to every schema directly below it."""

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
    """Every node of a schema, outer ones first."""
    waiting: list[tuple[str, JSON]] = [(path, schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            yield place, node
            waiting.extend(reversed(list(children(node, place))))


def types_of(node: Schema) -> list[str]:
    """The types a node names, each once; a node that says `properties` or `items` alone means an object or an array."""
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
    """The properties a node lists."""
    given = node.get("properties")
    return given if isinstance(given, dict) else {}


def required_of(node: Schema) -> list[str]:
    """The names a node requires."""
    given = node.get("required")
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def members_of(node: Schema, keyword: str) -> list[JSON]:
    """The schemas in a list of them."""
    given = node.get(keyword)
    return given if isinstance(given, list) else []


# Where a `$ref` leads: inside its own document, or nowhere. Nothing is ever fetched.
#
# A chain of references that comes back to itself leads nowhere either, although every step of it does. Nor does one of
# more than 64 steps, so that looking references up takes bounded time.


_LONGEST_CHAIN: Final = 64


def is_local(reference: JSON) -> bool:
    """Whether a reference stays inside its document."""
    return isinstance(reference, str) and reference.startswith("#")


def referred(root: Schema, reference: JSON) -> JSON:
    """What a reference points to, which may be another reference; None when it points to nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    place: JSON = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        place = _entered(place, name)
    return place


def target(root: Schema, node: JSON) -> JSON:
    """The node itself, or the end of the chain of references that starts there; None when it has no end."""
    for _ in range(_LONGEST_CHAIN):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        node = referred(root, node["$ref"])
    return None


def _entered(place: JSON, name: str) -> JSON:
    if isinstance(place, dict):
        return place.get(name)
    if isinstance(place, list) and name.isascii() and name.isdigit() and len(name) <= 9 and int(name) < len(place):
        return place[int(name)]
    return None


# Which references of a schema describe values that contain others of their own kind, to any depth.
#
# References are the nodes of a graph, with an arrow to every reference that stands in what they refer to. Taking away
# what leads nowhere, and what nothing leads to, again and again leaves the cycles and what lies between them.


_Arrows = dict[str, set[str]]


def recursive_references(root: Schema) -> frozenset[str]:
    """The references that can be followed without end."""
    arrows = _arrows(root)
    return frozenset(_without_ends(_reversed(_without_ends(arrows))))


def _arrows(root: Schema) -> _Arrows:
    arrows: _Arrows = {}
    waiting = list(_references_in(root))
    while waiting:
        reference = waiting.pop()
        if reference not in arrows:
            found = referred(root, reference)
            arrows[reference] = _references_in(found) if isinstance(found, dict) else set()
            waiting.extend(arrows[reference])
    return arrows


def _references_in(schema: Schema) -> set[str]:
    found = (node.get("$ref") for _, node in walk(schema, ROOT))
    return {reference for reference in found if isinstance(reference, str)}


def _without_ends(arrows: _Arrows) -> _Arrows:
    """What is left when everything without an arrow that goes on is taken away, and then again."""
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


# The schemas handed to us, copied into plain values before anything looks at them.
#
# Two shapes are taken: a tool's schema `{"name", "description", "parameters"}`, and the JSON schema of its parameters
# alone. The copy shares nothing with the caller, is a tree whatever it was made from, and is bounded in size and depth:
# at most a hundred levels of JSON, so that everything may walk over it recursively.


MAX_LEVELS: Final = 100


class UnreadableSchema(Exception):
    """What was given is no JSON object that could be a schema; `finding` says why."""

    def __init__(self, finding: SchemaFinding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def plain_schema(schema: object) -> Schema:
    """A copy as plain JSON values, or `UnreadableSchema`."""
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
    """Whether this is a tool's schema, and not that of its parameters."""
    return "parameters" in schema and "type" not in schema


def parameters_of(schema: Schema) -> Schema:
    """The schema of the parameters."""
    if not is_tool(schema):
        return schema
    parameters = schema["parameters"]
    if not isinstance(parameters, dict):
        raise UnreadableSchema(SchemaFinding(ROOT, "`parameters` is not an object: a schema is a dict"))
    return parameters


def _of_schemas(message: str) -> str:
    return message.replace("the arguments", "the schema").replace(f"{MAX_DEPTH} levels", f"{MAX_LEVELS} levels")
