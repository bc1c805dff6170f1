"""A failed test is run again once, alone, after all others; with `--run-failed-again` only.

The run passes if at most three tests failed and each of them passes in its second run. Such tests are counted and
listed last as UNSTEADY, because each of them is a defect that has to be fixed. More failures are no matter of chance.

A test whose process crashed counts as failed. A failure after the test itself may be the fault of another test of the
same file, so the whole file is run again. Leftovers of the whole run, a process that crashed between two tests, and
tests that did not run cannot be run again: the run fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator
from typing import Final

import pytest

from tests.leaks import THE_RUN
from tests.workers import is_worker

MAX_UNSTEADY: Final = 3
OPTION: Final = "--run-failed-again"
_MAX_SHOWN: Final = 20_000
_CRASHED: Final[str] = "???"  # the phase that xdist reports for a test whose process crashed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help=f"run at most {MAX_UNSTEADY} failed tests again, each alone")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(OPTION) and not config.getoption("usepdb") and not is_worker(config):
        config.pluginmanager.register(SecondRuns(config))


class SecondRuns:
    """Remembers what failed, runs it again, and corrects what pytest counted."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._begun: set[str] = set()
        self._failed: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)
        self._crashes = 0
        self._problems: list[str] = []
        self._unsteady: list[str] = []
        self._printed_again: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._begun.add(report.nodeid)
        if report.failed:
            self._failed[report.nodeid].append(report)
            self._crashes -= str(report.when) == _CRASHED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object | None) -> None:
        """Count a crash. The report of the test that was running, if there is one, takes it off again."""
        self._crashes += bool(error)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        answer = yield
        if self._config.option.collectonly:
            return answer
        if self._crashes > 0:
            self._problems.append("a process crashed between two tests")
        if unknown := session.testscollected - len(self._begun):
            self._problems.append(f"{unknown} tests did not run")
        session.testsfailed += len(self._problems)
        if not self._problems:
            self._run_again(session)
        return answer

    def _run_again(self, session: pytest.Session) -> None:
        reports = [report for found in self._failed.values() for report in found]
        if len(self._failed) > MAX_UNSTEADY or any(THE_RUN in str(report.longrepr) for report in reports):
            return
        for nodeid, found in self._failed.items():
            if self._passes_now(nodeid, found):
                self._unsteady.append(nodeid)
                session.testsfailed -= len(found)
        self._correct_the_count()

    def _passes_now(self, nodeid: str, reports: list[pytest.TestReport]) -> bool:
        may_be_another = any(report.when == "teardown" for report in reports)
        target = nodeid.partition("::")[0] if may_be_another else nodeid
        self._write(f"Running again, alone: {target}")
        answer = subprocess.run(
            [sys.executable, "-m", "pytest", "--no-header", *self._options(), target],
            cwd=self._config.rootpath,
            env={**os.environ, "PYTEST_ADDOPTS": ""},  # which may ask for a second run, and for processes that share it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if answer.returncode:
            self._printed_again[nodeid] = answer.stdout
        return answer.returncode == 0

    def _options(self) -> list[str]:
        """Repeat what chance decides, so that a failure for one seed is not taken for an unsteady test."""
        seed = self._config.getoption("randomly_seed", None)
        profile = self._config.getoption("hypothesis_profile", None)
        return [
            *([f"--randomly-seed={seed}"] if isinstance(seed, int) else []),
            *([f"--hypothesis-profile={profile}"] if profile else []),
        ]

    def _correct_the_count(self) -> None:
        if (reporter := self._reporter()) is None or not self._unsteady:
            return
        for category in ("failed", "error"):
            reports = reporter.stats.pop(category, [])
            if kept := [report for report in reports if report.nodeid not in self._unsteady]:
                reporter.stats[category] = kept
        reporter._add_stats("unsteady", [self._failed[nodeid][0] for nodeid in self._unsteady])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield
        for nodeid, printed in self._printed_again.items():
            terminalreporter.section(f"{nodeid} failed again, alone")
            self._write(printed[-_MAX_SHOWN:])
        for nodeid in self._unsteady:
            terminalreporter.section(f"{nodeid} failed once")
            for report in self._failed[nodeid]:
                report.toterminal(terminalreporter._tw)
        for problem in self._problems:
            self._write(f"FAILED the run: {problem}")
        if len(self._failed) > MAX_UNSTEADY:
            self._write(f"{len(self._failed)} tests failed. More than {MAX_UNSTEADY} are not run again.")
        for nodeid in self._unsteady:
            self._write(f"UNSTEADY {nodeid}")

    def _write(self, line: str) -> None:
        if (reporter := self._reporter()) is not None:
            reporter.ensure_newline()
            reporter.line(line)

    def _reporter(self) -> pytest.TerminalReporter | None:
        found: pytest.TerminalReporter | None = self._config.pluginmanager.getplugin("terminalreporter")
        return found
