"""What the README says of the command line is so: its options, and its examples to the last word but the figures."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Final

import pytest

from sandbox.outcome import Status
from sandbox.policy import shipped
from tests.checkout import ROOT
from tests.end_to_end.command_line import COMMAND, environment, sandbox

README: Final = (ROOT / "README.md").read_text()
EXAMPLES: Final = re.findall(r"^```console\n\$ sandbox (.*)\n((?:.*\n)*?)```", README, flags=re.MULTILINE)
FIGURE: Final = re.compile(r"\d[\d.]*( [a-zA-Z]+)?")


def _without_figures(text: str) -> list[str]:
    """The lines, with the figures of the last one taken out."""
    return [FIGURE.sub("…", line) if " · " in line else line for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "shown"), EXAMPLES, ids=[words for words, _ in EXAMPLES])
def test_an_example_of_the_readme_shows_what_a_terminal_shows(words: str, shown: str) -> None:
    answer = subprocess.run(
        [*COMMAND, *shlex.split(words)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert _without_figures(answer.stdout) == _without_figures(shown)


@pytest.mark.slow
def test_every_option_of_run_is_in_the_readme() -> None:
    options = set(re.findall(r"^\s+(?:-h, )?(--?[a-z]+)", sandbox("run", "--help").stdout, flags=re.MULTILINE))
    assert len(options) >= 12
    assert [option for option in sorted(options) if f"`{option}" not in README] == []


@pytest.mark.slow
def test_every_command_is_in_the_readme() -> None:
    commands = re.findall(r"^  ([a-z]+)  ", sandbox("--help").stdout.partition("Commands:")[2], flags=re.MULTILINE)
    parts = re.findall(r"^  ([a-z]+)  ", sandbox("policy", "--help").stdout.partition("Commands:")[2], re.MULTILINE)
    assert len(commands) >= 3
    assert [each for each in commands if f"sandbox {each}" not in README] == []
    assert [each for each in parts if f"sandbox policy {each}" not in README] == []


def test_every_status_and_policy_is_in_the_readme() -> None:
    assert [name for name in [*Status, *shipped()] if f"| `{name}` |" not in README] == []
