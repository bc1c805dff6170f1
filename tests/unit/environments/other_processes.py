"""Other processes that work on the same store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.checkout import ROOT

_BEGINNING = """
import sys
from pathlib import Path
from sandbox.environments.store.store import Store
from tests.unit.environments.made_wheels import key_of, publish_environment
store = Store(Path(sys.argv[1]))
def tell(what):
    print(what, flush=True)
def wait():
    sys.stdin.readline()
"""


@contextmanager
def running(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that runs this script, with `store` as its first argument; kill it at the end."""
    command = [sys.executable, "-c", _BEGINNING + script, *(str(argument) for argument in arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> str:
    """Return the next line of its output."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def nudge(process: subprocess.Popen[str]) -> None:
    """Let the process go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
