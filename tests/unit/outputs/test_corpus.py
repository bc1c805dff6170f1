"""Outputs of real programs, and their shaped forms: reviewed by eye once, and compared from then on.

`tests/corpus/outputs` holds what the programs printed, byte for byte; its folder `shown` holds what a reader gets.
A program here prints the outputs that would be too large to keep.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.outcome import Json, Shaped
from sandbox.outputs.boundaries import is_border
from sandbox.outputs.capture import Capture
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.shaping import shape, shape_value

CORPUS = Path(__file__).parents[2] / "corpus" / "outputs"
CASES = [
    ("pytest_failures", "execution_result", 3000),
    ("pytest_failures", "execution_result", 60_000),
    ("build_failure", "execution_result", 2000),
    ("pip_failure", "error_message", 800),
    ("pip_install", "execution_result", 900),
    ("pip_install", "execution_result", 8000),
    ("git_clone", "error_message", 8000),
    ("curl_progress", "error_message", 8000),
    ("ls_colours", "execution_result", 8000),
    ("scripts", "knowledge_content", 1000),
    ("scripts", "file_content", 1000),
]
MILLION_LINES = """
import sys
for number in range(1_000_000):
    said = "ERROR: the queue is full" if number in (400_000, 700_001) else "INFO: handled"
    sys.stdout.write(f"2026-11-18 12:{number // 60 % 60:02}:{number % 60:02} {said} request {number}\\n")
"""
DEEP_FAILURE = """
import json

class Report(dict):
    def __iter__(self):
        return read(self)

class NoSuchCity(Exception):
    pass

def read(report, depth=0):
    if depth < 30:
        return read(report, depth + 1)
    raise NoSuchCity("<html>" + "<p>no such city</p>\\n" * 5000)

try:
    json.loads("[" * 500 + "}")
except ValueError:
    read(Report())
"""


def captured(data: bytes, *, output_type: str, budget: int) -> Shaped:
    """Return the shaped form of a stream that comes in pieces of a pipe's size."""
    capture = Capture(shown=budget, limit=1 << 30, output_type=output_type)
    for at in range(0, len(data), 4096):
        capture.feed(data[at : at + 4096])
    return capture.shape()


def printed_by(program: str) -> tuple[bytes, bytes]:
    """Return what the program prints, and its errors."""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=False, timeout=60)
    return done.stdout, done.stderr


@pytest.mark.parametrize(("name", "output_type", "budget"), CASES)
def test_a_real_output_is_shaped_as_reviewed(name: str, output_type: str, budget: int) -> None:
    printed = (CORPUS / f"{name}.txt").read_bytes()
    shaped = captured(printed, output_type=output_type, budget=budget)
    assert shaped.text == (CORPUS / "shown" / f"{name}.{output_type}.{budget}.txt").read_bytes().decode()
    assert shaped == shape(printed.decode(), output_type=output_type, budget=budget)


@pytest.mark.slow
def test_a_million_lines_show_both_ends_and_the_errors_between() -> None:
    stdout, _ = printed_by(MILLION_LINES)
    lines = captured(stdout, output_type="execution_result", budget=8000).text.splitlines()
    notice = next(number for number, line in enumerate(lines) if line.startswith("[… "))
    assert [line.split(" ")[-1] for line in lines[:notice]] == [str(number) for number in range(notice)]
    assert [line.split()[:2] for line in lines[notice + 1 : notice + 3]] == [["[line", "400001]"], ["[line", "700002]"]]
    last = [int(line.split(" ")[-1]) for line in lines[notice + 3 :]]
    assert last == list(range(1_000_000 - len(last), 1_000_000))
    assert f"(lines {notice + 1}–{1_000_000 - len(last)}; 2 lines of it follow)" in lines[notice]  # noqa: RUF001


def test_a_deep_failure_shows_its_own_frames_and_its_message() -> None:
    _, stderr = printed_by(DEEP_FAILURE)
    shaped = captured(stderr, output_type="error_message", budget=2000)
    assert re.search(r'^\[line \d+\]   File "<string>", line 14, in read$', shaped.text, re.MULTILINE)
    assert "\nNoSuchCity: <html><p>no such city</p>\n" in shaped.text
    assert shaped.text.startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize("budget", [300, 2000, 8000])
def test_minified_json_stays_json(budget: int) -> None:
    program = "import json, sys, sysconfig; json.dump(sysconfig.get_config_vars(), sys.stdout, separators=(',', ':'))"
    stdout, _ = printed_by(program)
    shaped = captured(stdout, output_type="json_data", budget=budget)
    assert shaped.truncated
    assert shaped == shape(stdout.decode(), output_type="json_data", budget=budget)
    assert isinstance(json.loads(shaped.text), dict)


def test_a_csv_of_100_columns_keeps_names_and_whole_rows() -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(f"column{number}" for number in range(100))
    rows.writerows([f"{row}.{number}" for number in range(100)] for row in range(5000))
    shaped = shape(text.getvalue(), output_type="table", budget=8000)
    shown = list(csv.reader(strip_notices(shaped.text).splitlines()))
    assert shown[0][99] == "column99"
    assert {len(row) for row in shown if row} == {100}
    assert (shown[1][0], shown[-1][99]) == ("0.0", "4999.99")


@pytest.mark.parametrize("budget", range(1, 2800, 97))
def test_no_script_is_cut_inside_a_character(budget: int) -> None:
    text = (CORPUS / "scripts.txt").read_text(encoding="utf-8")
    for output_type in ("knowledge_content", "file_content", "status_message"):
        head, _, behind = shape(text, output_type=output_type, budget=budget).text.partition("[… ")
        tail = behind.partition(" …]")[2]
        assert is_border(text, at=len(head))
        assert is_border(text, at=len(text) - len(tail))


def test_a_table_value_of_many_rows_is_short() -> None:
    columns: list[Json] = [{"name": f"column{number}", "dtype": "float64"} for number in range(100)]
    rows: list[Json] = [[row / (number + 1) for number in range(100)] for row in range(500)]
    value: Json = {"$type": "table", "columns": columns, "rows": rows, "row_count": 500}
    lines = shape_value(value).text.splitlines()
    assert lines[0] == "500 rows × 100 columns"  # noqa: RUF001
    assert lines[1].startswith("column0 (float64) | ")
    assert lines[1].endswith(" | column99 (float64)")
    assert len(lines) >= 8
