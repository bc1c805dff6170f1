"""What went over the network of one call: counted here, bounded here, told in the evidence of its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from sandbox.policy import Network

Way: TypeAlias = Literal["sent", "received"]
_MOST_TOLD: Final = 20
_LONGEST_NAME: Final = 253


class Exhausted(Exception):
    """The call has used up one of its limits; the text names it."""


@dataclass(slots=True)
class Ledger:
    """The books of one call."""

    limits: Network
    connections: int = 0
    sent: int = 0
    received: int = 0
    refused: int = 0
    exhausted: set[str] = field(default_factory=set)
    _told: dict[tuple[str, str], None] = field(default_factory=dict)

    def open_connection(self) -> None:
        """One more; `Exhausted` when there were enough."""
        if self.connections >= self.limits.connections_in_all:
            self._exhaust("connections_in_all")
        self.connections += 1

    def count(self, way: Way, size: int) -> None:
        """So many bytes are about to go that way; `Exhausted` when that is too much. They are then not sent on."""
        total: int = getattr(self, way) + size
        if total > getattr(self.limits, way):
            self._exhaust(way)
        setattr(self, way, total)

    def refuse(self, host: str, reason: str) -> None:
        """Something was asked for in vain; the first of them are told."""
        self.refused += 1
        if len(self._told) < _MOST_TOLD:
            self._told[host[:_LONGEST_NAME], reason] = None

    def refused_hosts(self, reason: str) -> list[str]:
        """The hosts that were refused for this reason, as far as they are kept."""
        return [host for host, why in self._told if why == reason]

    def evidence(self) -> dict[str, JsonValue]:
        """The books as an outcome tells them."""
        return {
            "connections": self.connections,
            "sent_bytes": self.sent,
            "received_bytes": self.received,
            "refused": self.refused,
            "refusals": [{"host": host, "reason": reason} for host, reason in self._told],
            "exhausted": [*sorted(self.exhausted)],
        }

    def _exhaust(self, name: str) -> None:
        self.exhausted.add(name)
        raise Exhausted(f"the call's limit network.{name} is used up")
