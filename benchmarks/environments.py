"""All environment benchmarks: the cost of an environment for a call, of its build, and of many at once.

Each part can run by itself: `benchmarks.environment_calls`, `.environment_builds` and `.environment_crowds`.
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
