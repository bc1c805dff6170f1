"""What the README shows can be done."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

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


@pytest.mark.slow
def test_the_python_examples_of_the_readme_run(tmp_path: Path) -> None:
    assert PYTHON_EXAMPLES, "the README shows no Python"
    for number, example in enumerate(PYTHON_EXAMPLES):
        script = tmp_path / f"example_{number}.py"
        script.write_text(example)
        answer = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, f"{example}\n{answer.stderr}"
