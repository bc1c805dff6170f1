"""Run the examples of a page, one after the other, in one folder, as a reader would who follows the page.

Words in capitals stand for what earlier commands printed: `KEY` for an environment's key, `ID` for an artifact's id,
`IMAGE` for an image's tag, and `PUSHED` for the name under which a registry has it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.checkout import ROOT
from tests.docs.pages import Block, blocks
from tests.end_to_end.command_line import environment

_SECONDS: Final = 220
_FIGURE: Final = re.compile(r"\d[\d.]*( [a-zA-Z]+)?")
_LEFT_OUT: Final = "…"
_PLACEHOLDERS: Final[Mapping[str, re.Pattern[str]]] = {
    "KEY": re.compile(r"^ key +([0-9a-f]{12})", re.M),
    "ID": re.compile(r"^artifact ([0-9a-f]{12}): ", re.M),
    "IMAGE": re.compile(r"^ image +(sandbox/\S+)", re.M),
    "PUSHED": re.compile(r"(\S+@sha256:[0-9a-f]{64})"),
}


class ExampleFailed(AssertionError):
    """An example does not do what its page says."""


@dataclass(slots=True)
class PageRun:
    """The examples of one page, run in `folder` with `variables` added to those of the tests."""

    page: Path
    folder: Path
    variables: Mapping[str, str]
    found: dict[str, str] = field(default_factory=dict)
    printed: str = ""

    def run(self) -> int:
        """Run every block and return how many commands and scripts that were."""
        self._install_command()
        return sum(self._run_block(block) for block in blocks(self.page))

    def _install_command(self) -> None:
        (self.folder / "examples").symlink_to(ROOT / "examples")
        programs = self.folder / ".bin"
        programs.mkdir()
        command = programs / "sandbox"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sandbox "$@"\n')
        command.chmod(0o755)

    def _run_block(self, block: Block) -> int:
        if block.file is not None:
            (self.folder / block.file).write_text(block.text)
        elif block.mark == "output":
            self._compare(block, shown=block.text, printed=self.printed)
        elif block.is_run:
            return self._run_language(block)
        return 0

    def _run_language(self, block: Block) -> int:
        if block.language == "python":
            (self.folder / "example.py").write_text(block.text)
            self.printed = self._start(block, [sys.executable, "example.py"])
            return 1
        if block.language == "console":
            exchanges = list(_exchanges(block.text))
            for command, shown in exchanges:
                printed = self._start(block, self._shell(command), any_exit_code=True)
                self._compare(block, shown=shown, printed=printed)
            return len(exchanges)
        if block.language == "sh":
            commands = [line for line in block.text.replace("\\\n", "").splitlines() if line.strip()]
            for command in commands:
                self._start(block, self._shell(command))
            return len(commands)
        return 0

    def _shell(self, command: str) -> list[str]:
        for word, value in self.found.items():
            command = re.sub(rf"\b{word}\b", value, command)
        return ["bash", "-euo", "pipefail", "-c", command]

    def _start(self, block: Block, command: list[str], *, any_exit_code: bool = False) -> str:
        path = os.pathsep.join([str(self.folder / ".bin"), os.environ["PATH"]])
        answer = subprocess.run(
            command,
            cwd=self.folder,
            env=environment(PATH=path, PYTHONPATH=str(ROOT), **self.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        for word, pattern in _PLACEHOLDERS.items():
            if match := pattern.search(answer.stdout):
                self.found[word] = match[1]
        if answer.returncode and not any_exit_code:
            self._fail(block, f"{shlex.join(command)} exits with {answer.returncode}:\n{answer.stdout}")
        return answer.stdout

    def _compare(self, block: Block, *, shown: str, printed: str) -> None:
        if not _agree(_without_figures(shown), _without_figures(printed)):
            self._fail(block, f"the page shows\n{shown}\nand what is printed is\n{printed}")

    def _fail(self, block: Block, problem: str) -> None:
        raise ExampleFailed(f"{self.page}:{block.line}: {problem}")


def _exchanges(text: str) -> Iterator[tuple[str, str]]:
    """Split a session at its prompts into commands, each with what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _without_figures(text: str) -> list[str]:
    """Split into lines, with the figures of the line of figures taken out, and no spaces at the ends."""
    return [(_FIGURE.sub("#", line) if " · " in line else line).rstrip() for line in text.splitlines()]


def _agree(shown: list[str], printed: list[str]) -> bool:
    """Compare lines; a line that is only an ellipsis stands for any lines."""
    if _LEFT_OUT not in shown:
        return shown == printed
    pattern = "".join(".*" if line == _LEFT_OUT else f"{re.escape(line)}\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed), flags=re.S) is not None
