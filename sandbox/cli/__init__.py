"""The command line: the only place of the engine that prints.

    app             every command, and which file it lives in
    ending          from whatever happened to an exit code
    terminal        the two streams; visible: what may be written to them
    outcome_report  an outcome, and error_report an error, for people
    probe           what this host can do, asked by running real calls

A command's file holds its options and what it does. Nothing heavy is imported at the top of any of these modules: the
engine comes in when a command runs, and rich only where something is drawn on a terminal.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Final, NoReturn

__all__ = ["main"]

_BROKEN: Final = 1
_CANCELLED: Final = 130


def main() -> NoReturn:
    """The console script: run the command line of this process and leave with its exit code."""
    code = _BROKEN
    atexit.register(lambda: _leave(code))  # what is registered first is called last, after all others and all threads
    try:
        from sandbox.cli.exit_codes import exit_code_of

        code = exit_code_of(sys.argv[1:])
    except KeyboardInterrupt:
        code = _CANCELLED  # before there was anything to tell it, or while it was told
    if code == _CANCELLED:
        # Everything is written and closed. Python itself would end by the signal, not with our code, where the
        # interrupt met an `exec` of text: dataclasses have one, and they are made while modules are imported.
        os._exit(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process here. Python would now take everything apart, object by object, which takes longer than the call
    of a small tool, and the kernel takes it back at once. What cannot be written out Python tells in its own way."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
