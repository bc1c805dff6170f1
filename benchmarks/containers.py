"""All container benchmarks with one daemon: the cost of a call, of waiting containers, and the leftovers of a crowd.

Each part can run by itself: `benchmarks.container_calls`, `.container_idle` and `.container_crowd`. The parts need a
daemon (see `container_floors`), or root to start the tests' daemon.
"""

from __future__ import annotations

from benchmarks import container_calls, container_crowd, container_idle
from benchmarks.alone import run_alone
from benchmarks.container_floors import open_daemon
from benchmarks.report import Report, merge


def measure(*, is_quick: bool) -> Report:
    """Run all parts, one after the other."""
    parts = (container_calls, container_idle, container_crowd)
    with open_daemon():
        return merge("containers", [part.measure(is_quick=is_quick) for part in parts])


if __name__ == "__main__":
    run_alone(measure)
