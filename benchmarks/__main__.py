"""`python -m benchmarks` runs all benchmarks, each in a fresh process, and prints a table; `--json` the reports."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.report import Report, goals_table, measurements_table

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
    """Run what is asked for; 1 when one of them broke. Unmet goals are told, not punished: machines are noisy."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: shows that it works, measures little")
    parser.add_argument("--json", action="store_true", help="print the reports instead of tables")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(BENCHMARKS)}); all when none")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(BENCHMARKS)):
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    results = [_run(name, is_quick=asked.quick) for name in asked.names or BENCHMARKS]
    reports = [report for report in results if report is not None]
    print(_as_json(reports) if asked.json else _as_text(reports))
    return 0 if len(reports) == len(results) else 1


def _run(name: str, *, is_quick: bool) -> Report | None:
    """One benchmark's report; None when it broke, and why is on stderr by then."""
    print(f"{name} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=False)
    return Report.model_validate_json(done.stdout) if done.returncode == 0 else None


def _as_json(reports: list[Report]) -> str:
    return "[" + ",\n".join(report.model_dump_json(indent=2) for report in reports) + "]"


def _as_text(reports: list[Report]) -> str:
    if not reports:
        return "nothing was measured"
    machine = reports[-1].machine
    where = f"{machine.cpus} processors, {machine.kernel}, Python {machine.python}, {machine.date}, load {machine.load}"
    return "\n\n".join((goals_table(reports), measurements_table(reports), where))


if __name__ == "__main__":
    sys.exit(main())
