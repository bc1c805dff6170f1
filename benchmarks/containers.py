"""Everything about containers, with one daemon: what a call costs, what waiting ones hold, and what a crowd leaves.

The parts can be run by themselves: `benchmarks.container_calls`, `.container_idle` and `.container_crowd`. They need a
daemon (see `container_floors`), and to start the tests' own, root.
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
