"""The checkout under test: its root, and the files that belong to it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.provision import ROOT

__all__ = ["ROOT", "python_files", "tracked_files"]

_NEVER_TRACKED: Final = {".git", ".venv", ".test-venv", "__pycache__", "build", "dist", ".hypothesis"}


@cache
def tracked_files() -> tuple[str, ...]:
    """Return every file that git tracks; without git's records, every file that no program generates."""
    if not (ROOT / ".git").exists():
        return tuple(sorted(_walked()))
    # The checkout may belong to another user than the one who tests it.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(sorted(name for name in listing.split("\0") if name and (ROOT / name).is_file()))


def _walked() -> list[str]:
    files = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [str(file) for file in files if not any(_is_made(part) for part in file.parts)]


def _is_made(part: str) -> bool:
    return part in _NEVER_TRACKED or part.endswith(("_cache", ".egg-info"))


def python_files(*folders: str) -> list[Path]:
    """Return the Python files under these folders, tracked or not."""
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts
    )
