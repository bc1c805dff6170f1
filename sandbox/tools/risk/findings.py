"""The findings of an analysis, as rules add them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox.tools.risk.folding import UNKNOWN
from sandbox.tools.risk.model import RiskKind, RiskLevel
from sandbox.tools.risk.texts import names_credentials, names_metadata_service

Finding = tuple[RiskKind, RiskLevel, int, str]
_MAX_SHOWN = 60


@dataclass(slots=True)
class Findings:
    """Findings of one source, in the order in which rules add them."""

    found: list[Finding] = field(default_factory=list)

    def add(self, kind: RiskKind, level: RiskLevel, line: int, reason: str) -> None:
        """Add a finding."""
        self.found.append((kind, level, line, reason))

    def add_place(self, text: str, line: int) -> None:
        """Add a finding if a text names a place of credentials."""
        if names_credentials(text):
            self.add("credentials", "medium", line, f"names a place of credentials: {shown(text)}")
        elif names_metadata_service(text):
            self.add("credentials", "high", line, f"asks the metadata service of a cloud: {shown(text)}")


def shown(text: str) -> str:
    """Return a text for a reason: short, with a sign for parts that are not known."""
    return text.replace(UNKNOWN, "…")[:_MAX_SHOWN]
