"""Slow tests say so.

A test that takes more than a quarter of a second is marked `slow`, so that the fast ones can be run while one types:
`python3 -m tests -m "not slow"`. Unmarked ones above that are listed at the end. Machines are noisy, so an unmarked
test fails only when it takes twenty times as long, and what it waited for a processor that others had is not counted.

Collected tests stay to the end. The garbage collector freezes them, and does not go through millions of objects again
for every test that calls it.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

SLOW_SECONDS: Final = 0.25
TOO_SLOW_SECONDS: Final = 5.0
_LISTED: Final = 20
_UNMARKED: Final = "seconds of a test not marked slow"
_WAITED_BEFORE: Final = pytest.StashKey[float]()
_WAITED: Final = Path("/proc/self/schedstat")
"""Nanoseconds that the main thread had a processor, and that it was ready for one."""


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    item.stash[_WAITED_BEFORE] = _seconds_waited_for_a_processor()


def _seconds_waited_for_a_processor() -> float:
    return int(_WAITED.read_text().split()[1]) / 1e9 if _WAITED.exists() else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and call.duration > SLOW_SECONDS and item.get_closest_marker("slow") is None:
        report.user_properties.append((_UNMARKED, call.duration))  # goes with the report to the process that sums up
        seconds = call.duration - (_seconds_waited_for_a_processor() - item.stash[_WAITED_BEFORE])
        if report.passed and seconds > TOO_SLOW_SECONDS:
            report.outcome = "failed"
            report.longrepr = f"took {seconds:.1f} s and is not marked: add @pytest.mark.slow, or make it faster"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    unmarked = sorted(_unmarked(terminalreporter), reverse=True)
    if not unmarked:
        return
    terminalreporter.section(f"slower than {SLOW_SECONDS} s, not marked slow")
    for seconds, name in unmarked[:_LISTED]:
        terminalreporter.line(f"{seconds:.2f} s  {name}")


def _unmarked(reporter: pytest.TerminalReporter) -> Iterator[tuple[float, str]]:
    for report in (report for reports in reporter.stats.values() for report in reports):
        for name, value in getattr(report, "user_properties", ()):
            if name == _UNMARKED:
                yield value, report.nodeid
