"""`python -m benchmarks` runs each benchmark in a fresh process, and prints a table; `--json` prints the reports."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.report import Report, format_goals, format_measurements

BENCHMARKS: Final = (
    "warm_call",
    "cold_call",
    "throughput",
    "idle_box",
    "output",
    "shaping",
    "import_time",
    "reading",
    "binding",
    "environments",
    "containers",
)

_ROOT: Final = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the named benchmarks, and return 1 if one broke. An unmet goal is printed but is no failure, because machines
    are noisy."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: check that all work")
    parser.add_argument("--json", action="store_true", help="print the reports instead of tables")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; default: all")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(BENCHMARKS)):
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    results = [_run(name, is_quick=asked.quick) for name in asked.names or BENCHMARKS]
    reports = [report for report in results if report is not None]
    print(_format_json(reports) if asked.json else _format_text(reports))
    return 0 if len(reports) == len(results) else 1


def _run(name: str, *, is_quick: bool) -> Report | None:
    """Return the report of a benchmark, or None if it broke; the reason is on stderr."""
    print(f"{name} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=False)
    return Report.model_validate_json(done.stdout) if done.returncode == 0 else None


def _format_json(reports: list[Report]) -> str:
    return "[" + ",\n".join(report.model_dump_json(indent=2) for report in reports) + "]"


def _format_text(reports: list[Report]) -> str:
    if not reports:
        return "nothing was measured"
    machine = reports[-1].machine
    where = f"{machine.cpus} processors, {machine.kernel}, Python {machine.python}, {machine.date}, load {machine.load}"
    return "\n\n".join((format_goals(reports), format_measurements(reports), where))


if __name__ == "__main__":
    sys.exit(main())
