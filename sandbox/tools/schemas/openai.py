"""Export tools for OpenAI, in the shapes of the chat and of the responses API, with the rules of its strict mode.

Without strict mode the parameters are taken nearly as they are: the top level must be a plain object, and an array must
have `items`. Strict mode is a small language of its own. Unsupported keywords that a model can read go into the
descriptions, and so do defaults, which no longer act: null stands for them. A schema that strict mode cannot express,
or that is beyond its limits, is exported without strict mode, and the losses say why. The limits are those published
for structured outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sandbox.errors import SchemaRefused
from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.export_base import Export, Relaxation, ToolSchema, read_tool_schema
from sandbox.tools.schemas.health import NOT_STRICT
from sandbox.tools.schemas.nodes import (
    DEFINITIONS,
    ROOT,
    Schema,
    SchemaFinding,
    children,
    members_of,
    properties_of,
    types_of,
    walk,
    with_children,
)
from sandbox.tools.schemas.strict import strict_parameters

MAX_LEVELS: Final = 10
MAX_PROPERTIES: Final = 5_000
MAX_ENUM_VALUES: Final = 1_000
MAX_CHARACTERS: Final = 120_000
LARGE_ENUM: Final = 250
MAX_CHARACTERS_OF_A_LARGE_ENUM: Final = 15_000
FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_NOT_AT_THE_TOP: Final = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
_UNREAD: Final = frozenset({"$schema", "$id", "$comment", "readOnly", "writeOnly", "deprecated"})
_LOOKAROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


def openai_chat(schema: object, *, strict: bool = False) -> Export:
    """Return a tool as the chat completions API takes it."""
    function, losses = _function(read_tool_schema(schema), strict=strict)
    return Export({"type": "function", "function": function}, losses)


def openai_responses(schema: object, *, strict: bool = False) -> Export:
    """Return a tool as the responses API takes it, which says explicitly that strict mode is off."""
    function, losses = _function(read_tool_schema(schema), strict=strict)
    return Export({"type": "function", "strict": False, **function}, losses)


def _function(tool: ToolSchema, *, strict: bool) -> tuple[Schema, tuple[SchemaFinding, ...]]:
    said: Schema = {"name": tool.name, "description": tool.description}
    loose, losses = _loose(tool.parameters)
    if not strict:
        return {**said, "parameters": loose}, losses
    try:
        parameters, losses = _strict(tool.parameters)
    except SchemaRefused as refusal:
        reasons = [SchemaFinding(reason.path, f"not strict: {reason.message}") for reason in refusal.reasons]
        return {**said, "parameters": loose}, (*losses, *reasons)
    return {**said, "parameters": parameters, "strict": True}, losses


def _loose(parameters: Schema) -> tuple[Schema, tuple[SchemaFinding, ...]]:
    relaxation = Relaxation()
    plain = relaxation.move(parameters, lambda _, path: _NOT_AT_THE_TOP if path == ROOT else (), ROOT)
    described = relaxation.tuples_as_arrays({"type": "object", "properties": {}, **plain}, ROOT)
    return described, tuple(relaxation.losses)


def _strict(parameters: Schema) -> tuple[Schema, tuple[SchemaFinding, ...]]:
    relaxation = Relaxation()
    relaxation.lose_unlisted(parameters)
    unions = relaxation.one_of_as_any_of(_read(parameters, ROOT), ROOT)
    spelled = relaxation.tuples_as_arrays(unions, ROOT)
    strict = _plain_references(strict_parameters(relaxation.move(spelled, _untaken, ROOT)), ROOT)
    beyond = tuple(_beyond_limits(strict))
    if beyond:
        raise SchemaRefused("the schema is beyond the limits of strict mode", reasons=beyond)
    return strict, tuple(relaxation.losses)


def _read(node: Schema, path: str) -> Schema:
    """Return the node without remarks that are for others than a model."""
    return {keyword: value for keyword, value in with_children(node, _read, path).items() if keyword not in _UNREAD}


def _untaken(node: Schema, path: str) -> Iterable[str]:
    taken_elsewhere = {"allOf", "oneOf", "prefixItems"}
    keywords = [*sorted((NOT_STRICT - taken_elsewhere) & node.keys()), "default", "examples"]
    if path == ROOT:
        keywords += [keyword for keyword in _NOT_AT_THE_TOP if keyword not in keywords]
    if node.get("format") not in FORMATS:
        keywords.append("format")
    pattern = node.get("pattern")
    if isinstance(pattern, str) and any(token in pattern for token in _LOOKAROUND):
        keywords.append("pattern")
    return keywords


def _plain_references(node: Schema, path: str) -> Schema:
    """Return a copy in which each `$ref` stands alone, inside a union of one member, as strict mode requires."""
    copied = with_children(node, _plain_references, path)
    if "$ref" not in copied or len(copied) == 1 or "anyOf" in copied:
        return copied
    said = {keyword: value for keyword, value in copied.items() if keyword != "$ref"}
    return {**said, "anyOf": [{"$ref": copied["$ref"]}]}


def _beyond_limits(strict: Schema) -> Iterator[SchemaFinding]:
    nodes = [node for _, node in walk(strict, ROOT)]
    levels = _levels(strict)
    if levels > MAX_LEVELS:
        yield SchemaFinding(ROOT, f"objects are nested {levels} levels deep and may be {MAX_LEVELS}")
    properties = sum(len(properties_of(node)) for node in nodes)
    if properties > MAX_PROPERTIES:
        yield SchemaFinding(ROOT, f"there are {properties} properties and may be {MAX_PROPERTIES}")
    values = sum(len(members_of(node, "enum")) for node in nodes)
    if values > MAX_ENUM_VALUES:
        yield SchemaFinding(ROOT, f"there are {values} enum values and may be {MAX_ENUM_VALUES}")
    characters = sum(_characters(node) for node in nodes)
    if characters > MAX_CHARACTERS:
        yield SchemaFinding(ROOT, f"names and values have {characters} characters and may have {MAX_CHARACTERS}")
    for path, node in walk(strict, ROOT):
        longest = _length(members_of(node, "enum"))
        if len(members_of(node, "enum")) > LARGE_ENUM and longest > MAX_CHARACTERS_OF_A_LARGE_ENUM:
            most = MAX_CHARACTERS_OF_A_LARGE_ENUM
            yield SchemaFinding(
                path, f"an enum of more than {LARGE_ENUM} values has {longest} characters and may have {most}"
            )


def _characters(node: Schema) -> int:
    names = [*properties_of(node)]
    for keyword in DEFINITIONS:
        definitions = node.get(keyword)
        names += [*definitions] if isinstance(definitions, dict) else []
    constant = [node["const"]] if "const" in node else []
    return _length([*names, *members_of(node, "enum"), *constant])


def _length(values: Iterable[JSON]) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _levels(schema: Schema) -> int:
    """Return how many objects lie inside each other where they are most."""
    deepest = 0
    waiting: list[tuple[JSON, int]] = [(schema, 0)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, dict):
            inner = level + ("object" in types_of(node))
            deepest = max(deepest, inner)
            waiting.extend((child, inner) for _, child in children(node, ROOT))
    return deepest
