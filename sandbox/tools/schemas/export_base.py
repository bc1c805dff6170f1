"""A tool's schema, checked before it is written in anybody's shape: its name, its description, its parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sandbox.errors import SchemaRefused
from sandbox.tools.plain_json import JSON
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.schemas.nodes import (
    ROOT,
    Schema,
    SchemaFinding,
    UnreadableSchema,
    plain_schema,
    properties_of,
    walk,
    with_children,
)
from sandbox.tools.schemas.validator import validator
from sandbox.tools.tool import NAME_PATTERN


class Export(NamedTuple):
    """A tool in a provider's shape, and what that shape could not say."""

    document: Schema
    losses: tuple[SchemaFinding, ...]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool, as every provider sees it."""

    name: str
    description: str
    parameters: Schema


def read_tool_schema(schema: object) -> ToolSchema:
    """Return the parts of `{"name", "description", "parameters"}`, or `SchemaRefused` with everything that is wrong."""
    try:
        given = plain_schema(schema)
    except UnreadableSchema as fault:
        raise _refusal([fault.finding]) from None
    name, description, parameters = given.get("name"), given.get("description", ""), given.get("parameters")
    wrong: list[SchemaFinding] = []
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        shown = excerpt(name, NAME_LENGTH) if isinstance(name, str) else "nothing"
        wrong.append(SchemaFinding("name", f"{shown} is no name: 1 to 64 letters, digits, _ or -, and a letter first"))
    if not isinstance(description, str):
        wrong.append(SchemaFinding("description", "is not a string"))
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        wrong.append(SchemaFinding(ROOT, "`parameters` is not a schema of type object"))
    if wrong:
        raise _refusal(wrong)
    assert isinstance(name, str)
    assert isinstance(description, str)
    assert isinstance(parameters, dict)
    validator(parameters)
    return ToolSchema(name, description, parameters)


def _refusal(reasons: list[SchemaFinding]) -> SchemaRefused:
    return SchemaRefused("this is no tool's schema", reasons=tuple(reasons), remedy="correct these places")


Untaken: TypeAlias = Callable[[Schema, str], Iterable[str]]
"""The keywords of a node, found at a path, that the provider does not take."""

_MAX_VALUE_LENGTH: Final = 200


class Relaxation:
    """A schema on its way to a provider's form, and its losses in order."""

    def __init__(self) -> None:
        self.losses: list[SchemaFinding] = []

    def move(self, schema: Schema, untaken: Untaken, path: str) -> Schema:
        """Return a copy in which every keyword the provider does not take has become part of a description."""

        def change(node: Schema, place: str) -> Schema:
            moving = [keyword for keyword in untaken(node, place) if keyword in node]
            self.losses.extend(SchemaFinding(place, f"`{keyword}` is only described") for keyword in moving)
            return with_children(describe_keywords(node, moving), change, place)

        return change(schema, path)

    def lose(self, path: str, message: str) -> None:
        """Note what cannot be said at a place."""
        self.losses.append(SchemaFinding(path, message))

    def lose_unlisted(self, parameters: Schema) -> None:
        """Note the objects that take more than they list, and are going to be closed."""
        for path, node in walk(parameters, ROOT):
            if node.get("additionalProperties") is True and properties_of(node):
                self.lose(path, "members that are not listed cannot be given")

    def one_of_as_any_of(self, node: Schema, path: str) -> Schema:
        """Return a copy that knows one kind of union."""
        copied = with_children(node, self.one_of_as_any_of, path)
        if "oneOf" in copied and "anyOf" not in copied:
            copied["anyOf"] = copied.pop("oneOf")
            self.lose(path, "that exactly one member of `oneOf` fits is not said")
        return copied

    def tuples_as_arrays(self, node: Schema, path: str) -> Schema:
        """Return a copy in which arrays that say what each position holds say what any of them holds."""
        copied = with_children(node, self.tuples_as_arrays, path)
        leading = copied.pop("prefixItems", None)
        if not isinstance(leading, list):
            return copied
        rest = copied.get("items")
        kinds = remove_duplicates([*leading, *([rest] if isinstance(rest, dict) else [])])
        copied["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        if len(kinds) > 1:
            self.lose(path, "which position holds which kind of value is not said")
        return copied


def describe_keywords(node: Schema, keywords: Iterable[str]) -> Schema:
    """Return the node without these keywords, and with a description that tells them."""
    moving = {keyword: node[keyword] for keyword in keywords}
    if not moving:
        return node
    listed = ", ".join(f"{keyword}: {_show(value)}" for keyword, value in moving.items())
    before = node.get("description")
    text = f"{before} ({listed})" if isinstance(before, str) and before else f"({listed})"
    kept = {keyword: value for keyword, value in node.items() if keyword not in moving}
    return {**kept, "description": text}


def remove_duplicates(members: Iterable[JSON]) -> list[JSON]:
    """Return the members in their order, each once; 1 and true are not the same."""
    return list({json.dumps(member, sort_keys=True): member for member in members}.values())


def _show(value: JSON) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _MAX_VALUE_LENGTH)
