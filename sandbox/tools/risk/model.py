"""The report of a risk analysis: findings, each with its level, line and reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from sandbox.tools.safe_text import excerpt

RiskLevel = Literal["none", "low", "medium", "high"]
RiskKind = Literal[
    "process", "dynamic_code", "network", "files", "credentials", "deserialization", "native", "obfuscation"
]
LEVELS: Final[tuple[RiskLevel, ...]] = ("none", "low", "medium", "high")
NOTE: Final = "Advice, not a security boundary: a source can hide what it does. The policy and the box limit a call."
MAX_FINDINGS: Final = 50
_MAX_REASON_LENGTH: Final = 160
_RANKS: Final[dict[RiskLevel, int]] = {level: rank for rank, level in enumerate(LEVELS)}


class RiskFinding(BaseModel):
    """A place in a source that may do harm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: RiskKind
    level: RiskLevel
    line: int
    reason: str


class RiskReport(BaseModel):
    """Advice about what a source may do; `level` is the highest level of its findings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: RiskLevel = "none"
    findings: tuple[RiskFinding, ...] = ()
    """In the order of the source; if there are too many, those of the highest levels."""
    unlisted: int = 0
    """How many findings are not listed."""
    note: str = NOTE


def is_within(report: RiskReport, maximum: RiskLevel) -> bool:
    """Return whether the level of a report is at most `maximum`."""
    return _RANKS[report.level] <= _RANKS[maximum]


def rank(level: RiskLevel) -> int:
    """Return a number by which levels compare."""
    return _RANKS[level]


def build_report(found: Iterable[tuple[RiskKind, RiskLevel, int, str]]) -> RiskReport:
    """Return the report of findings, each given as kind, level, line and reason; the same one is listed once."""
    distinct = sorted(set(found), key=lambda each: (-_RANKS[each[1]], each[2], each[0], each[3]))
    listed = sorted(distinct[:MAX_FINDINGS], key=lambda each: (each[2], -_RANKS[each[1]], each[0], each[3]))
    return RiskReport(
        level=distinct[0][1] if distinct else "none",
        findings=tuple(
            RiskFinding(kind=kind, level=level, line=line, reason=excerpt(reason, _MAX_REASON_LENGTH))
            for kind, level, line, reason in listed
        ),
        unlisted=len(distinct) - len(listed),
    )
