"""Check a source: report all problems, everything that can be called, and what models see of it.

A check does not stop at the first problem and does not raise for the content of a source: text that is not Python is
one problem, with its place. Reports are remembered by source, as tools are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from sandbox.errors import SourceError
from sandbox.tools.description import describe
from sandbox.tools.dialects import Candidate, read_candidates, settings_of
from sandbox.tools.dialects.entry import DEFAULT_FILENAME, choose_entry, meant_candidates
from sandbox.tools.metadata import ToolRecord, detailed_text, read_records
from sandbox.tools.problems import Problems, SourceProblem
from sandbox.tools.reading import source_digest
from sandbox.tools.risk import RiskReport, analyze_risk
from sandbox.tools.safe_text import NAME_LENGTH, excerpt
from sandbox.tools.schemas.health import invalid_reasons
from sandbox.tools.script_block import ScriptBlock, read_script_block
from sandbox.tools.signature import read_signature
from sandbox.tools.source import Source, open_source
from sandbox.tools.syntax.decoding import decode_source
from sandbox.tools.syntax.parsing import parse_module
from sandbox.tools.tool import NO_SETTINGS, ToolSettings
from sandbox.tools.weighted_lru import WeightedLRU

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
MAX_CALLABLES: Final = 200
_MAX_REASONS: Final = 10
_MAX_BYTES: Final = 16 * 1024 * 1024


class CheckedCallable(BaseModel):
    """A callable of a source."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    entry: str
    name: str
    kind: str
    line: int
    schema_: dict[str, Any] = Field(alias="schema")
    """`{"name", "description", "parameters"}`, as far as it could be read."""
    returns: dict[str, Any] | None = None
    """The JSON schema of what it returns, where its annotation says one."""
    details: str
    """The long description, for prompts."""


class CheckReport(BaseModel):
    """The result of a check; `ok` means that no problem is an error."""

    model_config = _FROZEN

    ok: bool
    problems: tuple[SourceProblem, ...] = ()
    callables: tuple[CheckedCallable, ...] = ()
    entry: str | None = None
    """The callable that runs if a call names no other."""
    metadata: tuple[ToolRecord, ...] = ()
    requirements: tuple[str, ...] = ()
    requires_python: str | None = None
    settings: ToolSettings = NO_SETTINGS
    risk: RiskReport | None = None
    """Advice about what the source may do; None if it could not be parsed."""

    def chosen(self) -> CheckedCallable | None:
        """Return the callable that is the entry."""
        return next((each for each in self.callables if each.entry == self.entry), None)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as one document; `schema` is that of the entry."""
        chosen = self.chosen()
        document = self.model_dump(mode="json", by_alias=True)
        return json.dumps(
            {**document, "schema": None if chosen is None else chosen.schema_}, ensure_ascii=False, indent=indent
        )


_reports: WeightedLRU[tuple[str, str, str | None], CheckReport] = WeightedLRU(most=256, heaviest=_MAX_BYTES)


def check_source(source: str | bytes, *, filename: str = DEFAULT_FILENAME, entry: str | None = None) -> CheckReport:
    """Return the report on a source, without executing any of it."""
    key = (source_digest(source), filename, entry)
    report = _reports.get(key)
    if report is None:
        report = _check(source, filename=filename, entry=entry)
        _reports.put(key, report, weight=4096 + 2 * len(source))
    return report


def _check(given: str | bytes, *, filename: str, entry: str | None) -> CheckReport:
    problems = Problems()
    block = ScriptBlock()
    risk: RiskReport | None = None
    try:
        text = decode_source(given)
        problems.text = text
        block = _block(text, problems)
        module = parse_module(text, requires_python=block.requires_python)
        risk = analyze_risk(text, module)
        source = open_source(text, module, problems)
        candidates = read_candidates(source)
        chosen = _chosen(source, candidates, filename=filename, entry=entry)
    except SourceError as error:
        problems.add_error("unreadable", error)
        return _report(problems, block, risk=risk)
    meant = list(meant_candidates(candidates))[:MAX_CALLABLES]
    listed = meant if chosen is None or chosen in meant else [*meant, chosen]
    _check_distinct(source, listed)
    callables = [_callable(source, each) for each in listed]
    records = read_records(source, listed)
    settings = {each.entry: _settings(source, each, block.settings) for each in listed}
    if chosen is not None:
        block = replace(block, settings=settings[chosen.entry])
    entry = None if chosen is None else chosen.entry
    return _report(problems, block, callables, entry=entry, records=records, risk=risk)


def _block(text: str, problems: Problems) -> ScriptBlock:
    try:
        return read_script_block(text)
    except SourceError as error:
        problems.add_error("script_block", error)
        return ScriptBlock()


def _chosen(source: Source, candidates: list[Candidate], *, filename: str, entry: str | None) -> Candidate | None:
    """Return the callable that runs; a source of several tools needs an entry only when it is called."""
    try:
        return choose_entry(source, candidates, filename=filename, entry=entry)
    except SourceError as error:
        if not candidates and source.problems.found:  # a problem says why nothing can be called
            return None
        is_several = bool(candidates) and entry is None
        if not is_several:
            source.problems.add_error("no_entry", error)
        elif all(each.kind == "function" and not each.is_marked for each in candidates):
            source.problems.add_error("several_entries", error)
        return None


def _callable(source: Source, candidate: Candidate) -> CheckedCallable:
    described = describe(candidate, source)
    _check_call(source, candidate)
    if candidate.schema is not None:
        _check_health(source, candidate, described.schema())
    return CheckedCallable(
        entry=candidate.entry,
        name=candidate.name,
        kind=candidate.kind,
        line=getattr(candidate.node, "lineno", 1),
        schema_=described.schema(),
        returns=described.returns,
        details=detailed_text(candidate),
    )


def _check_distinct(source: Source, listed: list[Candidate]) -> None:
    """Report callables that share one name, because a call could not tell them apart."""
    seen: set[str] = set()
    for candidate in listed:
        if candidate.entry in seen:
            source.problems.add(
                "same_name",
                f"two tools are named {excerpt(candidate.entry, NAME_LENGTH)}",
                at=candidate.node,
                path=candidate.entry,
                remedy="rename one of them",
            )
        seen.add(candidate.entry)


def _settings(source: Source, candidate: Candidate, block: ToolSettings) -> ToolSettings:
    try:
        return settings_of(candidate, block)
    except SourceError as error:
        source.problems.add_error("bad_setting", error, path=candidate.entry)
        return block


def _check_call(source: Source, candidate: Candidate) -> None:
    """Report what makes a call impossible and what `describe` has not reported."""
    try:
        read_signature(candidate, source)
    except SourceError as error:
        if "without names" not in error.message:
            source.problems.add_error("bad_signature", error, path=candidate.entry)


def _check_health(source: Source, candidate: Candidate, schema: Mapping[str, Any]) -> None:
    for finding in invalid_reasons(schema)[:_MAX_REASONS]:
        source.problems.add(
            "invalid_schema",
            finding.message,
            at=candidate.node,
            path=f"{candidate.entry}: {finding.path}",
            remedy="correct the schema that the source writes out",
        )


def _report(
    problems: Problems,
    block: ScriptBlock,
    callables: list[CheckedCallable] | None = None,
    *,
    entry: str | None = None,
    records: list[ToolRecord] | None = None,
    risk: RiskReport | None = None,
) -> CheckReport:
    found = problems.in_order()
    return CheckReport(
        ok=not any(each.severity == "error" for each in found),
        problems=tuple(found),
        callables=tuple(callables or ()),
        entry=entry,
        metadata=tuple(records or ()),
        requirements=block.requirements,
        requires_python=block.requires_python,
        settings=block.settings,
        risk=risk,
    )
