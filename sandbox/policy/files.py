"""One policy file, from its path to a TOML document, without trusting that it is one.

A path may come from a command line and name anything: a folder, a pipe that never answers, a device, a file of many
gigabytes. It is opened without waiting, must be a regular file, and is read up to a cap above any real policy: the time
that `tomllib` takes for a long dotted key grows with its square, one second at the cap.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Final

from sandbox.errors import PolicyError
from sandbox.policy.messages import quoted

LARGEST_FILE: Final = 16 * 1024

_PLACE: Final = re.compile(r" \(at (?:line (?P<line>[0-9]+), column [0-9]+|end of document)\)\Z")


def read_document(path: Path) -> dict[str, object]:
    """The file's tables; `PolicyError` names the file and, where its TOML makes no sense, the line."""
    text = _text(_content(path), path=path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _unreadable(path, "is nested too deeply") from None
    except ValueError as error:
        raise _malformed(path, error, text=text) from None


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _unreadable(path, "is not a regular file")
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise _unreadable(path, "is not a path: it holds characters that no path can") from None
    if len(content) > LARGEST_FILE:
        raise _unreadable(path, f"is larger than {LARGEST_FILE // 1024} KiB, so it is no policy")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _text(content: bytes, *, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"is not UTF-8 text, from byte {error.start} on") from None


def _unreadable(path: Path, reason: str) -> PolicyError:
    return PolicyError(f"policy file {quoted(str(path))} {reason}")


def _malformed(path: Path, error: ValueError, *, text: str) -> PolicyError:
    """tomllib puts the place at the end of its message; editors and people look for `file:line` in front."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:
        return _unreadable(path, f"is not TOML: {message[:200]}")
    line = place["line"] or text.count("\n") + 1
    return PolicyError(f"policy file {quoted(str(path))}, line {line}: {message[: place.start()][:200]}")
