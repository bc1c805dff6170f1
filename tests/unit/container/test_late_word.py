"""A kill for memory is reported though the daemon hears of it late.

A real daemon is late when the machine is busy and never on request, so that these tests use a fake one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from sandbox.backends.container.meters import container_facts

BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
ASKED: Final = BEGAN + timedelta(seconds=10)
LIMIT: Final = 1 << 28


class LateDaemon:
    """A daemon with a single container, which learns of a kernel's kill some seconds after a question."""

    def __init__(self, *, hears_after_s: float | None, exit_code: int | None = None) -> None:
        self.api = self
        self._hears_at = None if hears_after_s is None else (ASKED + timedelta(seconds=hears_after_s)).timestamp()
        self._exit_code = exit_code

    def inspect_container(self, container: str) -> dict[str, Any]:
        is_running = self._exit_code is None
        state = {"Running": is_running, "Status": "running" if is_running else "exited", "OOMKilled": False}
        ended = {"StartedAt": BEGAN.isoformat(), "FinishedAt": ASKED.isoformat(), "ExitCode": self._exit_code or 0}
        return {"Id": container, "State": state | ended, "HostConfig": {"Memory": LIMIT}}

    def stats(self, container: str, **_: bool) -> dict[str, Any]:
        return {"id": container, "read": ASKED.isoformat(), "memory_stats": {"limit": LIMIT}}

    def events(self, *, since: str, until: str, **_: Any) -> Iterator[dict[str, str]]:
        if self._hears_at is not None and float(since) <= self._hears_at <= float(until):
            yield {"status": "oom"}


def tells(daemon: Any, *, awaits_reason: bool = False) -> bool:
    return container_facts(daemon, "some", awaits_reason=awaits_reason).out_of_memory


@pytest.mark.parametrize(("hears_after_s", "told"), [(-1.0, True), (0.5, True), (60.0, False), (None, False)])
def test_the_reason_of_a_kill_in_a_container_is_awaited_briefly(hears_after_s: float | None, told: bool) -> None:
    assert tells(LateDaemon(hears_after_s=hears_after_s), awaits_reason=True) is told


@pytest.mark.parametrize(("hears_after_s", "told"), [(-1.0, True), (0.5, False)])
def test_a_container_without_a_kill_reports_the_known_events_only(hears_after_s: float, told: bool) -> None:
    assert tells(LateDaemon(hears_after_s=hears_after_s)) is told


@pytest.mark.parametrize(("exit_code", "told"), [(137, True), (1, False)])
def test_the_reason_of_a_killed_container_is_awaited_briefly(exit_code: int, told: bool) -> None:
    assert tells(LateDaemon(hears_after_s=0.5, exit_code=exit_code)) is told
