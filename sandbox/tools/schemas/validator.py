"""Documents against a JSON schema of draft 2020-12, also one written by a stranger.

Three things a stranger's schema could do are kept from it. It cannot make this process read a file or an address:
references lead to the schema's own parts or the schema is refused. It cannot hang it with patterns: the regular
expressions count how often they step back, and there is a bound on their number and size. And it cannot ask for
comparisons without end through unions of references: they are counted before they are made. A document that would
take too many does not fit, and says so.

`format` is a remark about a value, as in the standard, and is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from sandbox.errors import SchemaRefused
from sandbox.tools.pattern_effort import MOST_EFFORT, effort_of
from sandbox.tools.plain_json import JSON, NotPlain, PlainCopy
from sandbox.tools.safe_text import excerpt
from sandbox.tools.schemas.effort import TooMuchEffort, can_be_costly, spend_at_most
from sandbox.tools.schemas.input import Unreadable, plain_schema
from sandbox.tools.schemas.issues import MOST_FINDINGS, ROOT, Finding, path_of
from sandbox.tools.schemas.nodes import Schema, walk
from sandbox.tools.schemas.references import is_local

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

_MOST_COMPARISONS: Final = 2_000_000
_MOST_EXPLAINED: Final = 50_000
_MOST_PATTERNS: Final = 1_000
_BACKTRACK_LIMIT: Final = 100_000
_PATTERN_BYTES: Final = 10 * 1024 * 1024
_MATCHING_BYTES: Final = 256 * 1024
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_TOO_LARGE: Final = Finding(ROOT, "is too large to compare with this schema")
_UNEXPLAINED: Final = Finding(ROOT, "does not fit the schema, and is too large to say where")


@dataclass(frozen=True, slots=True)
class SchemaValidator:
    """One schema, ready to check documents."""

    schema: Schema
    _compiled: Draft202012Validator
    _is_costly: bool

    def is_valid(self, document: object) -> bool:
        """Whether the document fits."""
        try:
            plain = PlainCopy().copy(document)
        except NotPlain:
            return False
        return self._is_affordable(plain) and self._compiled.is_valid(plain)

    def problems(self, document: object) -> tuple[Finding, ...]:
        """Where the document does not fit, at most a hundred places; none when it does."""
        try:
            plain = PlainCopy().copy(document)
        except NotPlain as fault:
            return (Finding(path_of(fault.path), fault.message),)
        if not self._is_affordable(plain):
            return (_TOO_LARGE,)
        if self._compiled.is_valid(plain):
            return ()
        return self._explained(plain) if self._affords(_MOST_EXPLAINED, plain) else (_UNEXPLAINED,)

    def _is_affordable(self, document: JSON) -> bool:
        return not self._is_costly or self._affords(_MOST_COMPARISONS, document)

    def _affords(self, comparisons: int, document: JSON) -> bool:
        try:
            spend_at_most(comparisons, schema=self.schema, document=document)
        except TooMuchEffort:
            return False
        return True

    def _explained(self, document: JSON) -> tuple[Finding, ...]:
        found: list[Finding] = []
        for error in self._compiled.iter_errors(document):
            if len(found) == MOST_FINDINGS:
                break
            found.append(Finding(path_of(error.instance_path), excerpt(error.message)))
        return tuple(found)


def validator(schema: object) -> SchemaValidator:
    """What checks documents against the schema; `SchemaRefused` when it is none, or refers to anything outside."""
    try:
        plain = plain_schema(schema)
    except Unreadable as fault:
        raise _refusal(fault.finding) from None
    _refuse_strange(plain)
    return SchemaValidator(plain, _compiled(plain), can_be_costly(plain))


def _refuse_strange(schema: Schema) -> None:
    """Refuse what leaves the schema, which nothing ever follows, and more patterns than anybody needs."""
    patterns, effort = 0, 0
    outside: list[Finding] = []
    for path, node in walk(schema, ROOT):
        named = node.get("patternProperties")
        listed = [node["pattern"]] if "pattern" in node else []
        listed += [*named] if isinstance(named, dict) else []
        patterns += len(listed)
        effort += sum(effort_of(each) for each in listed if isinstance(each, str))
        leaving = (keyword for keyword in _REFERENCES if keyword in node and not is_local(node[keyword]))
        outside += (
            Finding(path, f"`{keyword}` leads out of the schema, and nothing is fetched") for keyword in leaving
        )
    if patterns > _MOST_PATTERNS:
        outside.append(Finding(ROOT, f"has {patterns} patterns and may have {_MOST_PATTERNS}"))
    if effort > MOST_EFFORT:
        outside.append(Finding(ROOT, "has patterns that are too large together: let their parts repeat less often"))
    if outside:
        raise _refusal(*outside[:MOST_FINDINGS])


def _compiled(schema: Schema) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ReferencingError, ValidationError

    patterns = FancyRegexOptions(
        backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_BYTES, dfa_size_limit=_MATCHING_BYTES
    )
    try:
        return Draft202012Validator(schema, retriever=_never, pattern_options=patterns)
    except ValidationError as error:
        raise _refusal(Finding(path_of(error.instance_path), excerpt(error.message))) from None
    except (ValueError, ReferencingError) as error:
        raise _refusal(Finding(ROOT, excerpt(str(error)))) from None


def _never(address: str, /) -> NoReturn:
    raise ValueError(f"nothing is fetched: {excerpt(address)}")


def _refusal(*reasons: Finding) -> SchemaRefused:
    return SchemaRefused(
        "this is no JSON schema that can be used (draft 2020-12)",
        reasons=reasons,
        remedy="correct these places, and put what is referred to under `$defs`",
    )
