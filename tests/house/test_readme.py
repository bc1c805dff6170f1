"""What the README shows can be done."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import typer.main

from sandbox.cli.app import command_line
from tests.checkout import ROOT

README: Final = (ROOT / "README.md").read_text()
PYTHON_EXAMPLES: Final = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
SET_UP_COMMANDS: Final = (
    "python3 -m venv .venv && .venv/bin/pip install . && "
    '.venv/bin/sandbox run examples/word_count.py -a text="to be or not to be"',
    "python3 -m tests",
)


@pytest.mark.parametrize("command", SET_UP_COMMANDS)
def test_the_readme_shows_the_set_up_command(command: str) -> None:
    assert command in README.splitlines()


def test_the_readme_tells_every_option_of_run_once() -> None:
    table = README.partition("| option of `sandbox run FILE` | |")[2].partition("\n\n")[0]
    told = [option for row in table.splitlines() for option in re.findall(r"`(--?[a-z-]+)", row.split(" | ")[0])]
    run = typer.main.get_group(command_line("run")).commands["run"]
    known = {parameter.name: parameter.opts for parameter in run.params if parameter.param_type_name == "option"}
    assert len(told) == len(set(told))
    assert set(told) <= {"--help"} | {spelling for opts in known.values() for spelling in opts}
    assert [name for name, opts in known.items() if not set(opts) & set(told)] == []


@pytest.mark.slow
def test_the_python_examples_of_the_readme_are_well_typed_and_what_is_misspelled_is_not(tmp_path: Path) -> None:
    for number, example in enumerate(PYTHON_EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(example)
    (tmp_path / "wrong.py").write_text("from sandbox import Sandbox\n\nSandbox().run('', polcy='strict')\n")
    command = (sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path, tmp_path)
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (said, *_) = answer.stdout.splitlines() or [answer.stderr]
    assert re.search(r'wrong.py:3: error: Unexpected keyword argument "polcy"', said), answer.stdout
    assert answer.stdout.count(" error: ") == 1, answer.stdout


@pytest.mark.slow
def test_the_python_examples_of_the_readme_run(tmp_path: Path) -> None:
    assert PYTHON_EXAMPLES, "the README shows no Python"
    for number, example in enumerate(PYTHON_EXAMPLES):
        script = tmp_path / f"example_{number}.py"
        script.write_text(example)
        answer = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, f"{example}\n{answer.stderr}"
