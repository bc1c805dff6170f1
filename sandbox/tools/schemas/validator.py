"""Validate documents against a JSON schema of draft 2020-12, also an untrusted one.

An untrusted schema is bounded in three ways. References lead to parts of the schema itself, or the schema is refused,
so it cannot make this process read a file or an address. Regular expressions count their backtracking steps, and their
number and size are bounded. The comparisons are counted before they are made: each level of `anyOf: [A, A]` doubles
them, so a small schema can ask for more than can ever be made. A text compared with a pattern counts as one comparison
for each character. A document that would take too many comparisons does not fit, and the problem says so.

`format` is an annotation, as in the standard, and is not validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from sandbox.errors import SchemaRefused
from sandbox.tools.plain_json import JSON, NotPlain, PlainCopy
from sandbox.tools.safe_text import excerpt
from sandbox.tools.schemas.nodes import (
    MAX_FINDINGS,
    ROOT,
    UNIONS,
    Schema,
    SchemaFinding,
    UnreadableSchema,
    children,
    is_local,
    members_of,
    path_of,
    plain_schema,
    resolve,
    walk,
)
from sandbox.tools.types.validation_budget import MAX_PATTERN_COST, pattern_cost

_COSTLY: Final = frozenset({"$ref", "$dynamicRef", "pattern", "patternProperties"})
_HERE: Final = ("not", "if", "then", "else")
_OF_EVERY_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")
_OF_EVERY_ITEM: Final = ("items", "contains", "unevaluatedItems", "additionalItems")


class TooMuchEffort(Exception):
    """The document and the schema take too long to compare."""


def spend_at_most(comparisons: int, *, schema: Schema, document: JSON) -> None:
    """Raise `TooMuchEffort` if comparing the document with the schema could take more comparisons."""
    try:
        _Count(schema, comparisons).of(document, schema)
    except RecursionError:
        raise TooMuchEffort from None


def can_be_costly(schema: JSON) -> bool:
    """Return whether comparisons can multiply, for which parts of the schema have to be used again, or be long."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if _COSTLY & node.keys():
                return True
            waiting.extend(child for _, child in children(node, ROOT))
    return False


class _Count:
    def __init__(self, root: Schema, most: int) -> None:
        self._root = root
        self._most = most
        self._known: dict[tuple[int, int], int] = {}

    def of(self, value: JSON, node: JSON) -> int:
        """Return the comparisons of one value with one node; a node that only leads back to itself makes none."""
        if not isinstance(node, dict):
            return 1
        key = (id(value), id(node))
        if key not in self._known:
            self._known[key] = 0
            pairs = [*((value, each) for each in self._here(node)), *_inner_pairs(value, node)]
            self._known[key] = 1 + _characters(value, node) + sum(self.of(part, each) for part, each in pairs)
        if self._known[key] > self._most or len(self._known) > self._most:
            raise TooMuchEffort
        return self._known[key]

    def _here(self, node: Schema) -> Iterator[JSON]:
        for keyword in UNIONS:
            yield from members_of(node, keyword)
        yield from (node[keyword] for keyword in _HERE if keyword in node)
        dependent = node.get("dependentSchemas")
        if isinstance(dependent, dict):
            yield from dependent.values()
        if "$ref" in node:
            yield resolve(self._root, node["$ref"])


def _characters(value: JSON, node: Schema) -> int:
    """Return the characters that are compared with the patterns of the node itself."""
    if isinstance(value, str):
        return len(value) if "pattern" in node else 0
    patterns = node.get("patternProperties")
    if isinstance(value, dict) and isinstance(patterns, dict):
        return len(patterns) * sum(len(name) for name in value)
    return 0


def _inner_pairs(value: JSON, node: Schema) -> Iterator[tuple[JSON, JSON]]:
    """Yield the parts of the value, with the nodes they are compared with."""
    if isinstance(value, dict):
        yield from _members(value, node)
    elif isinstance(value, list):
        leading = members_of(node, "prefixItems")
        yield from zip(value, leading, strict=False)
        yield from ((item, node[keyword]) for keyword in _OF_EVERY_ITEM if keyword in node for item in value)


def _members(value: dict[str, JSON], node: Schema) -> Iterator[tuple[JSON, JSON]]:
    for keyword in ("properties", "patternProperties"):
        listed = node.get(keyword)
        if isinstance(listed, dict) and keyword == "properties":
            yield from ((value[name], member) for name, member in listed.items() if name in value)
        elif isinstance(listed, dict):
            yield from ((part, member) for member in listed.values() for part in value.values())
    if "propertyNames" in node:
        yield from ((name, node["propertyNames"]) for name in value)
    yield from ((part, node[keyword]) for keyword in _OF_EVERY_MEMBER if keyword in node for part in value.values())


if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

_MAX_COMPARISONS: Final = 2_000_000
_MAX_EXPLAINED: Final = 50_000
_MAX_PATTERNS: Final = 1_000
_BACKTRACK_LIMIT: Final = 100_000
_PATTERN_BYTES: Final = 10 * 1024 * 1024
_MATCHING_BYTES: Final = 256 * 1024
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TOO_LARGE: Final = SchemaFinding(ROOT, "is too large to compare with this schema")
_UNEXPLAINED: Final = SchemaFinding(ROOT, "does not fit the schema, and is too large to say where")


@dataclass(frozen=True, slots=True)
class SchemaValidator:
    """A schema, ready to validate documents."""

    schema: Schema
    _compiled: Draft202012Validator
    _is_costly: bool

    def is_valid(self, document: object) -> bool:
        """Return whether the document fits."""
        try:
            plain = PlainCopy().copy(document)
        except NotPlain:
            return False
        return self._is_affordable(plain) and self._compiled.is_valid(plain)

    def problems(self, document: object) -> tuple[SchemaFinding, ...]:
        """Return where the document does not fit, at most a hundred places; none when it does."""
        try:
            plain = PlainCopy().copy(document)
        except NotPlain as fault:
            return (SchemaFinding(path_of(fault.path), fault.message),)
        if not self._is_affordable(plain):
            return (_TOO_LARGE,)
        if self._compiled.is_valid(plain):
            return ()
        return self._explain(plain) if self._affords(_MAX_EXPLAINED, plain) else (_UNEXPLAINED,)

    def _is_affordable(self, document: JSON) -> bool:
        return not self._is_costly or self._affords(_MAX_COMPARISONS, document)

    def _affords(self, comparisons: int, document: JSON) -> bool:
        try:
            spend_at_most(comparisons, schema=self.schema, document=document)
        except TooMuchEffort:
            return False
        return True

    def _explain(self, document: JSON) -> tuple[SchemaFinding, ...]:
        found: list[SchemaFinding] = []
        for error in self._compiled.iter_errors(document):
            if len(found) == MAX_FINDINGS:
                break
            found.append(SchemaFinding(path_of(error.instance_path), excerpt(error.message)))
        return tuple(found)


def validator(schema: object) -> SchemaValidator:
    """Return the validator of a schema; raise `SchemaRefused` if the schema is invalid or refers to outside."""
    try:
        plain = plain_schema(schema)
    except UnreadableSchema as fault:
        raise _refusal(fault.finding) from None
    _refuse_strange(plain)
    return SchemaValidator(plain, _compiled(plain), can_be_costly(plain))


def _refuse_strange(schema: Schema) -> None:
    """Refuse what leaves the schema, which nothing ever follows, and more patterns than anybody needs."""
    patterns, effort = 0, 0
    outside: list[SchemaFinding] = []
    for path, node in walk(schema, ROOT):
        named = node.get("patternProperties")
        listed = [node["pattern"]] if "pattern" in node else []
        listed += [*named] if isinstance(named, dict) else []
        patterns += len(listed)
        effort += sum(pattern_cost(each) for each in listed if isinstance(each, str))
        leaving = (keyword for keyword in _REFERENCES if keyword in node and not is_local(node[keyword]))
        outside += (
            SchemaFinding(path, f"`{keyword}` leads out of the schema, and nothing is fetched") for keyword in leaving
        )
    if patterns > _MAX_PATTERNS:
        outside.append(SchemaFinding(ROOT, f"has {patterns} patterns and may have {_MAX_PATTERNS}"))
    if effort > MAX_PATTERN_COST:
        outside.append(SchemaFinding(ROOT, "has patterns that are too large together: repeat their parts less often"))
    if outside:
        raise _refusal(*outside[:MAX_FINDINGS])


def _compiled(schema: Schema) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ReferencingError, ValidationError

    patterns = FancyRegexOptions(
        backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_BYTES, dfa_size_limit=_MATCHING_BYTES
    )
    try:
        return Draft202012Validator(schema, retriever=_never, pattern_options=patterns)
    except ValidationError as error:
        raise _refusal(SchemaFinding(path_of(error.instance_path), excerpt(error.message))) from None
    except (ValueError, ReferencingError) as error:
        raise _refusal(SchemaFinding(ROOT, excerpt(str(error)))) from None


def _never(address: str, /) -> NoReturn:
    raise ValueError(f"nothing is fetched: {excerpt(address)}")


def _refusal(*reasons: SchemaFinding) -> SchemaRefused:
    return SchemaRefused(
        "this is no JSON schema that can be used (draft 2020-12)",
        reasons=reasons,
        remedy="correct these places, and put what is referred to under `$defs`",
    )
