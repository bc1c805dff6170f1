"""The network traffic of a call: its counters, its limits, and its part of the outcome's evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from sandbox.policy import Network

Direction: TypeAlias = Literal["sent", "received"]
_MAX_REFUSALS: Final = 20
_MAX_NAME: Final = 253


class Exhausted(Exception):
    """The call has used up one of its limits; the text names it."""


@dataclass(slots=True)
class CallTraffic:
    """The traffic of a call."""

    limits: Network
    connections: int = 0
    sent: int = 0
    received: int = 0
    refused: int = 0
    exhausted: set[str] = field(default_factory=set)
    _refusals: dict[tuple[str, str], None] = field(default_factory=dict)

    def open_connection(self) -> None:
        """Count a connection; raise `Exhausted` if the call has used up its connections."""
        if self.connections >= self.limits.connections_in_all:
            self._exhaust("connections_in_all")
        self.connections += 1

    def count(self, way: Direction, size: int) -> None:
        """Count bytes before they are sent on; raise `Exhausted` if they exceed the limit."""
        total: int = getattr(self, way) + size
        if total > getattr(self.limits, way):
            self._exhaust(way)
        setattr(self, way, total)

    def refuse(self, host: str, reason: str) -> None:
        """Count a refused request; the evidence names the first ones."""
        self.refused += 1
        if len(self._refusals) < _MAX_REFUSALS:
            self._refusals[host[:_MAX_NAME], reason] = None

    def refused_hosts(self, reason: str) -> list[str]:
        """Return the hosts among the first refusals that were refused for this reason."""
        return [host for host, why in self._refusals if why == reason]

    def evidence(self) -> dict[str, JsonValue]:
        """Return the traffic as it appears in an outcome."""
        return {
            "connections": self.connections,
            "sent_bytes": self.sent,
            "received_bytes": self.received,
            "refused": self.refused,
            "refusals": [{"host": host, "reason": reason} for host, reason in self._refusals],
            "exhausted": [*sorted(self.exhausted)],
        }

    def _exhaust(self, name: str) -> None:
        self.exhausted.add(name)
        raise Exhausted(f"the call's limit network.{name} is used up")
