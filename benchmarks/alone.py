"""Run one benchmark by itself: `python -m benchmarks.warm_call [--quick]` prints its report as JSON."""

from __future__ import annotations

import argparse
from typing import Protocol

from benchmarks.report import Report


class Measure(Protocol):
    """A benchmark. A quick run takes seconds."""

    def __call__(self, *, is_quick: bool) -> Report: ...


def run_alone(measure: Measure) -> None:
    """Run the command line of one benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds: shows that it works, measures little")
    print(measure(is_quick=parser.parse_args().quick).model_dump_json(indent=2))
