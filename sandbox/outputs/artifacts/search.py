"""Search the lines of an artifact for a pattern, within a time limit.

Both may come from a model: a pattern that backtracks without end, and a text made for it. So a separate process
(`search_program`) does the matching, and is killed when its time is over; the matches until then are returned.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from sandbox.errors import ArtifactsUnavailable, SpecError

MAX_MATCHES: Final = 1000
_PROGRAM: Final = Path(__file__).with_name("search_program.py")
_MAX_PATTERN_LENGTH: Final = 1000


@dataclass(frozen=True, slots=True)
class Match:
    """A line with a match: its number, and its text from `start` on, which is 0 unless the match is far behind."""

    line: int
    text: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Matches:
    """The first lines that match; `is_whole` where all of the artifact was searched."""

    found: tuple[Match, ...]
    is_whole: bool


def search(file: IO[bytes], pattern: str, *, most: int, ignore_case: bool, seconds: float) -> Matches:
    """Return at most `most` matches in the file; raise `SpecError` if the pattern is invalid."""
    if len(pattern) > _MAX_PATTERN_LENGTH or "\0" in pattern or not 1 <= most <= MAX_MATCHES:
        raise SpecError(
            f"a pattern has at most {_MAX_PATTERN_LENGTH} characters and no NUL, and at most {MAX_MATCHES} matches"
        )
    lines = _run(file, [pattern, str(most), "i" * ignore_case, str(int(seconds) + 1)], seconds=seconds)
    found = [Match(*line) for line in lines if isinstance(line[0], int)]
    kind, detail = lines[-1][:2] if lines else ("", "")
    if kind == "error":
        raise SpecError(f"the pattern {pattern[:80]!r} is invalid: {detail}")
    return Matches(tuple(found), is_whole=kind == "end" and len(found) < most)


def _run(file: IO[bytes], arguments: list[str], *, seconds: float) -> list[list[Any]]:
    """Return the output of the program until its end, or until its time was over."""
    if not sys.executable:
        raise ArtifactsUnavailable("artifacts cannot be searched: this program does not know its interpreter")
    command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), *arguments]
    try:
        said = subprocess.run(
            command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False, env={}
        ).stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    except (OSError, ValueError) as error:
        raise ArtifactsUnavailable(f"artifacts cannot be searched: {error}") from None
    whole, _, _ = said.rpartition(b"\n")
    return [json.loads(line) for line in whole.split(b"\n") if line]
