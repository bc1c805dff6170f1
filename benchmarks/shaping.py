"""The speed and memory of shaping a stream of a gibibyte into what can be shown.

The floor is a bare drain: the same program prints into the same pipe, and the reader drops every piece. A stream passes
at 400 MB per second of this process's processor time, or at three times the duration of a drain; a faster program has
to wait. The benchmark also measures how long pruning a JSON value of ten mebibytes takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psutil

from benchmarks.alone import run_alone
from benchmarks.report import Report, Spread, at_least, at_most, build_report, spread
from sandbox.outcome import Json
from sandbox.outputs.capture import Capture
from sandbox.outputs.shapes import shape_for
from sandbox.outputs.shaping import shape_value

_MIB: Final = 1 << 20
_PIECE: Final = 1 << 16
_WRITER: Final = """
import os, sys
line = sys.argv[1].encode().decode("unicode_escape").encode("latin-1").decode().encode()
lines = line * (65536 // len(line) + 2)
for number in range(int(sys.argv[2]) * 16):
    begin = number * 65536 % len(line)
    rest = lines[begin:begin + 65536]
    while rest:
        rest = rest[os.write(1, rest):]
"""
_LOG: Final = "2026-11-18 12:00:00 INFO worker 17 did the thing number 12345 and went on\\n"
_STREAMS: Final = {
    "a log as execution_result": (_LOG, "execution_result"),
    "one endless line as execution_result": ("x", "execution_result"),
    "a log as error_message": (_LOG, "error_message"),
    "a log as file_content": (_LOG, "file_content"),
    "a progress bar as error_message": (
        "\\r 45%|#########          | 45/100 [00:01<00:02, 33.3it/s]",
        "error_message",
    ),
}
_SLOWER: Final = {"colours": ("\\x1b[31msome line of\\x1b[0m a log 12345\\n", "execution_result")}
"""Measured without a goal: the reader must find every escape sequence, here one in 17 characters."""
_ENOUGH_MB_S: Final = 400.0
_TIMES_A_DRAIN: Final = 3.0


@dataclass(frozen=True, slots=True)
class _Reading:
    """The cost of reading one stream."""

    seconds: float
    cpu_s: float
    grown: int


def measure(*, is_quick: bool) -> Report:
    """Measure streams and pruning."""
    mebibytes, rounds = (8, 1) if is_quick else (1024, 3)
    drains = [_read(_LOG, mebibytes, len).seconds for _ in range(rounds)]
    found = {name: [_capture(*each, mebibytes) for _ in range(rounds)] for name, each in _STREAMS.items()}
    slower = {name: _capture(*each, max(mebibytes // 16, 1)) for name, each in _SLOWER.items()}
    pruned = [_time_pruning(value) for value in _make_values()]
    cases: dict[str, Spread] = {name: spread([each.seconds for each in all_], unit="s") for name, all_ in found.items()}
    rates = {name: mebibytes * _MIB / 1e6 / min(each.cpu_s for each in all_) for name, all_ in found.items()}
    rates |= {name: max(mebibytes // 16, 1) * _MIB / 1e6 / each.cpu_s for name, each in slower.items()}
    cases |= {f"{name}: MB for a second of a core": spread([rate], unit="MB") for name, rate in rates.items()}
    cases["10 MiB of JSON pruned"] = spread(pruned, unit="s of a core")
    grown = max(each.grown for all_ in found.values() for each in all_)
    return build_report(
        "shaping",
        cases=cases,
        floors={"bare drain": spread(drains, unit="s")},
        goals=[
            at_least("least share of 400 MB/s or a third of a drain", _find_least(found, rates, min(drains)), 1),
            at_most("MiB that a capture grows by", round(grown / _MIB, 2), 16),
            at_most("seconds to prune 10 MiB of JSON", round(max(pruned), 3), 1),
        ],
        notes={"printed_mib": mebibytes},
    )


def _find_least(found: dict[str, list[_Reading]], rates: dict[str, float], drain: float) -> float:
    """Return the better of both measures for the slowest stream, because one of the two is enough."""
    return round(
        min(
            max(rates[name] / _ENOUGH_MB_S, _TIMES_A_DRAIN * drain / min(each.seconds for each in all_))
            for name, all_ in found.items()
        ),
        3,
    )


def _capture(line: str, output_type: str, mebibytes: int) -> _Reading:
    capture = Capture(shown=shape_for(output_type).budget, limit=1 << 40, output_type=output_type)
    reading = _read(line, mebibytes, capture.feed)
    assert capture.bytes_fed == mebibytes * _MIB
    assert capture.shape().truncated or "\\r" in line
    return reading


def _read(line: str, mebibytes: int, take: Callable[[bytes], object]) -> _Reading:
    """Read everything that a program prints, and pass each piece on."""
    process = psutil.Process()
    before = most = process.memory_info().rss
    with _start_writer(line, mebibytes) as descriptor:
        piece, number = os.read(descriptor, _PIECE), 0
        begun, cpu = time.perf_counter(), time.process_time()
        while piece:
            take(piece)
            number += 1
            if number % 1024 == 0:
                most = max(most, process.memory_info().rss)
            piece = os.read(descriptor, _PIECE)
        cpu_s, seconds = time.process_time() - cpu, time.perf_counter() - begun
    return _Reading(seconds, cpu_s, max(most, process.memory_info().rss) - before)


@contextmanager
def _start_writer(line: str, mebibytes: int) -> Iterator[int]:
    """Start the program, and yield the descriptor to read from."""
    command = [sys.executable, "-I", "-c", _WRITER, line, str(mebibytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.fileno()


def _make_values() -> Iterator[Json]:
    yield {"rows": [{"id": number, "text": "some words here " * 4} for number in range(110_000)]}
    yield list(range(1_400_000))
    yield {"text": "y" * 10 * _MIB}


def _time_pruning(value: Json) -> float:
    begun = time.process_time()
    shape_value(value)
    return time.process_time() - begun


if __name__ == "__main__":
    run_alone(measure)
