"""The command line: the only place of the engine that prints.

    app             every command, and the file that defines it
    exit_codes      from any end of a command to an exit code
    terminal, text  the two streams; safe and readable text for them
    outcome_report  an outcome for people

A command's file holds its options and its work. No module here imports anything heavy at its top: the engine is
imported when a command runs, and rich only when something is drawn on a terminal.
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
    """Run the command line of this process, and exit with its code."""
    code = _BROKEN
    atexit.register(
        lambda: _leave(code)
    )  # the first registered function runs last, after all others and after all threads
    try:
        from sandbox.cli.exit_codes import exit_code_of

        code = exit_code_of(sys.argv[1:])
    except KeyboardInterrupt:
        code = _CANCELLED  # an interrupt before the handlers were in place, or during them
    if code == _CANCELLED:
        # Everything is written and closed. Python itself would end by the signal instead of our code if the interrupt
        # came during an `exec` of text, which dataclasses use while modules are imported.
        os._exit(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process here, because Python's own teardown takes longer than the call of a small tool, and the kernel
    frees everything at once. Python reports what it cannot write."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
