"""The command line as users have it: a process of its own, with its own streams and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any, Final

from tests.checkout import ROOT

COMMAND: Final = (sys.executable, "-m", "sandbox")
SECONDS: Final = 220


def environment(**variables: str) -> dict[str, str]:
    """Ours without what would change how the command line behaves, and with these. Artifacts are the tests' own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBOX_", "NO_COLOR"))}
    ours = {name: os.environ[name] for name in ("SANDBOX_ARTIFACTS",) if name in os.environ}
    return {**kept, **ours, "COLUMNS": "100", **variables}


def sandbox(*words: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run one command line to its end; no input, unless some is given."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=ROOT,
        env=environment(**(env or {})),
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=options.pop("timeout", SECONDS),
        check=False,
        **options,
    )


def start(*words: object) -> subprocess.Popen[str]:
    """Start one command line, which a test reads and signals. Hangups reach it even if they do not reach us."""
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        return subprocess.Popen(
            [*COMMAND, *map(str, words)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    finally:
        signal.signal(signal.SIGHUP, ours)
