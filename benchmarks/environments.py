"""Everything about environments: what one adds to a call, what its build costs, and what many of them share.

The parts can be run by themselves: `benchmarks.environment_calls`, `.environment_builds` and `.environment_crowds`.
"""

from __future__ import annotations

from benchmarks import environment_builds, environment_calls, environment_crowds
from benchmarks.alone import run_alone
from benchmarks.report import Report, merge


def measure(*, is_quick: bool) -> Report:
    """Run all parts, one after the other."""
    parts = (environment_calls, environment_builds, environment_crowds)
    return merge("environments", [part.measure(is_quick=is_quick) for part in parts])


if __name__ == "__main__":
    run_alone(measure)
