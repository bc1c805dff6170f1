"""The index that is asked when nobody named one: the one that our resolver would ask.

No address is written down here: a mirror's operator or a fork that changes uv's default changes ours with it. The
default is part of uv's documented options, and its `--help` is the only place where uv says it by itself. Asking takes
longer than all else that a new process does to find its environment, so what this uv said is remembered on disk.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from sandbox.environments.disk.complete_marker import write_whole
from sandbox.environments.disk.paths import default_root, make_root
from sandbox.environments.uv_binary import uv_program
from sandbox.errors import EnvironmentUnavailable

_NOTE: Final = "public-index"
_PATIENCE_S: Final = 30.0


@cache
def public_index() -> str:
    """Its address; raises `EnvironmentUnavailable` when uv does not say it."""
    return index_of(uv_program(), remembered_in=default_root())


def index_of(program: Path, *, remembered_in: Path) -> str:
    """The default of that uv. What is remembered is believed only in a folder that nobody else can change."""
    status = program.stat()
    who = f"{program} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
    note = remembered_in / _NOTE
    with suppress(OSError, ValueError, EnvironmentUnavailable):
        make_root(remembered_in)
        known, _, index = note.read_text().partition("\n")
        if known == who and index:
            return index
    index = _said_by(program)
    with suppress(OSError, EnvironmentUnavailable):
        make_root(remembered_in)
        write_whole(note, f"{who}\n{index}".encode(), mode=0o600)
    return index


def _said_by(program: Path) -> str:
    command = [str(program), "pip", "compile", "--help", "--no-config", "--color", "never"]
    answer = subprocess.run(command, env={}, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    _, _, said = answer.stdout.partition("--default-index")
    found = re.search(r"by default:\s+<(https://[^\s>]+)>", said)
    if found is None:
        raise EnvironmentUnavailable(
            "no package index is configured, and uv does not say which is the public one",
            remedy="name one, for example by PIP_INDEX_URL or UV_DEFAULT_INDEX",
        )
    return found[1]
