"""The command line: the only room of the engine that prints.

    app       every command with its module, and the exit code of every ending
    options   options that several commands share, and the parsing of their text
    terminal  the two output streams, and text that is safe to print
    tables    tables and facts, drawn by rich

Every other module holds one group of commands. No module imports anything heavy at its top: the engine is imported when
a command runs, and rich only where a command draws on a terminal.
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
    """Run the command line of this process and exit with its code."""
    code = _BROKEN
    # atexit calls the first registered function last, after all others and after all threads ended.
    atexit.register(lambda: _leave(code))
    try:
        from sandbox.cli.app import exit_code_of

        code = exit_code_of(sys.argv[1:])
    except KeyboardInterrupt:
        code = _CANCELLED  # the interrupt came before a command began, or while its error was printed
    if code == _CANCELLED:
        # All output is written. An ordinary exit could end by the signal instead of our code: an interrupt during an
        # `exec` of text (dataclasses use one at import time) makes Python do so.
        os._exit(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process without Python's own clean-up, which takes longer than the call of a small tool."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
