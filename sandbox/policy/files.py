"""Read a policy file into a TOML document, without trusting the file.

A path from a command line can name anything: a folder, a pipe without a writer, a device, a file of many gigabytes. So
this module opens the file without blocking, takes regular files only, and reads up to a bound that is larger than any
real policy. The bound also limits `tomllib`, whose time for a long dotted key grows with the square of its length: one
second at the bound.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Final

from sandbox.errors import PolicyError
from sandbox.policy.messages import quote

MAX_FILE_BYTES: Final = 16 * 1024

_POSITION: Final = re.compile(r" \(at (?:line (?P<line>[0-9]+), column [0-9]+|end of document)\)\Z")


def read_document(path: Path) -> dict[str, object]:
    """Return the tables of a file. Raise `PolicyError` with the file's name and, for a syntax error, the line."""
    text = _decode(_read(path), path=path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _build_error(path, "is nested too deeply") from None
    except ValueError as error:
        raise _build_syntax_error(path, error, text=text) from None


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _build_error(path, "is not a regular file")
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _build_error(path, f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise _build_error(path, "is not a path: it holds characters that no path can") from None
    if len(content) > MAX_FILE_BYTES:
        raise _build_error(path, f"is larger than {MAX_FILE_BYTES // 1024} KiB, so it is no policy")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _decode(content: bytes, *, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _build_error(path, f"is not UTF-8 text, from byte {error.start} on") from None


def _build_error(path: Path, reason: str) -> PolicyError:
    return PolicyError(f"policy file {quote(str(path))} {reason}")


def _build_syntax_error(path: Path, error: ValueError, *, text: str) -> PolicyError:
    """Move the position from the end of tomllib's message to the front, where editors look for `file:line`."""
    message = str(error)
    position = _POSITION.search(message)
    if position is None:
        return _build_error(path, f"is not TOML: {message[:200]}")
    line = position["line"] or text.count("\n") + 1
    return PolicyError(f"policy file {quote(str(path))}, line {line}: {message[: position.start()][:200]}")
