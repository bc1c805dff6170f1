"""The run passes in spite of a few tests that fail once, and in spite of nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.house.nested_runs import ALONE, SHARED, run_tests
from tests.second_runs import MAX_UNSTEADY, OPTION

pytestmark = pytest.mark.slow

# Count the runs of a test, which fails in the first of them only.
COUNTING: Final = """
import os, pytest
from pathlib import Path

def is_first(name):
    with Path(__file__).with_name(name).open("a") as runs:
        runs.write(".")
        return runs.tell() == 1
"""
UNSTEADY: Final = """
def test_steady(): assert not is_first("steady") or True
def test_unsteady(): assert not is_first("unsteady"), "this is why"
"""
CRASHING: Final = """
def test_steady(): ...
def test_unsteady(): is_first("unsteady") and os._exit(3)
"""
FAILING: Final = """
def test_failing(): assert is_first("failing") is None, "this is why"
"""
FAILING_AFTERWARDS: Final = """
@pytest.fixture(scope="module")
def shared():
    yield
    assert not is_first("shared")

def test_unsteady(shared): is_first("unsteady")
def test_unsteady_as_well(shared): is_first("unsteady as well")
"""
LEAKING: Final = """
def test_leaking(): is_first("leaking") and __import__("tempfile").mkdtemp()
"""
CRASHES_AT_THE_END: Final = """
def pytest_sessionfinish(session):
    hasattr(session.config, "workerinput") and __import__("os")._exit(3)
"""


@pytest.mark.parametrize("options", [ALONE, SHARED], ids=["alone", "shared"])
def test_a_test_that_fails_once_is_listed_last_and_fails_no_run(options: tuple[str, ...], tmp_path: Path) -> None:
    answer = run_tests(tmp_path, COUNTING + UNSTEADY, OPTION, *options)
    assert answer.returncode == 0, answer.stdout
    *_, listed, summary = answer.stdout.splitlines()
    assert listed == "UNSTEADY test_it.py::test_unsteady"
    assert ("1 passed" in summary, "1 unsteady" in summary, "failed" in summary) == (True, True, False)
    assert "this is why" in answer.stdout
    assert runs_of(tmp_path) == {"steady": 1, "unsteady": 2}


def test_without_the_option_no_test_runs_again(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, COUNTING + UNSTEADY)
    assert answer.returncode == 1
    assert runs_of(tmp_path) == {"steady": 1, "unsteady": 1}


def test_a_test_that_fails_again_fails_the_run_and_says_why(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, COUNTING + FAILING, OPTION)
    assert answer.returncode == 1
    assert "test_it.py::test_failing failed again, alone" in answer.stdout
    assert "1 failed" in answer.stdout.splitlines()[-1]
    assert runs_of(tmp_path) == {"failing": 2}


def test_of_too_many_failed_tests_none_runs_again(tmp_path: Path) -> None:
    tests = "".join(f"def test_{n}(): assert not is_first('{n}')\n" for n in range(MAX_UNSTEADY + 1))
    answer = run_tests(tmp_path, COUNTING + tests, OPTION)
    assert answer.returncode == 1
    assert f"{MAX_UNSTEADY + 1} failed" in answer.stdout.splitlines()[-1]
    assert set(runs_of(tmp_path).values()) == {1}


def test_a_test_whose_process_crashed_runs_again(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, COUNTING + CRASHING, OPTION, *SHARED)
    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.splitlines()[-2] == "UNSTEADY test_it.py::test_unsteady"


def test_a_failure_after_a_test_has_its_whole_file_run_again(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, COUNTING + FAILING_AFTERWARDS, OPTION)
    assert answer.returncode == 0, answer.stdout
    assert runs_of(tmp_path) == {"shared": 2, "unsteady": 2, "unsteady as well": 2}


@pytest.mark.parametrize("options", [ALONE, SHARED], ids=["alone", "shared"])
def test_leftovers_of_the_run_fail_the_run(options: tuple[str, ...], tmp_path: Path) -> None:
    answer = run_tests(tmp_path, COUNTING + LEAKING, OPTION, *options)
    assert answer.returncode == 1
    assert runs_of(tmp_path) == {"leaking": 1}


def test_a_process_that_crashes_between_tests_fails_the_run(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, UNSTEADY.replace("is_first", "str"), OPTION, *SHARED, conftest=CRASHES_AT_THE_END)
    assert answer.returncode == 1, answer.stdout
    assert "FAILED the run: a process crashed between two tests" in answer.stdout


def runs_of(folder: Path) -> dict[str, int]:
    """Count how often each test of the nested run was run."""
    files = (file for file in folder.iterdir() if file.is_file() and not file.suffix)
    return {file.name: len(file.read_text()) for file in files}
