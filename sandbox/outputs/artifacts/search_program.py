"""The program that searches an artifact, in a process of its own, because a pattern can take forever.

The artifact is standard input, and the arguments are `pattern, most, flags, seconds`. Each line of output is a JSON
array: the number of a line and its beginning, with the position of the match; the last line is `["end", lines]`, or
`["error", reason]`. The program limits its own memory and time, and its parent limits its time as well. The program
uses the standard library only and is run by its path.
"""

from __future__ import annotations

import json
import re
import resource
import sys

_MAX_MEMORY = 1 << 29
_MAX_LINE_LENGTH = 1 << 16
_SHOWN = 400


def main(pattern: str, most: str, flags: str, seconds: str) -> None:
    """Search standard input, line by line; what is too long for a line is searched in pieces."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    try:
        search = re.compile(pattern, re.IGNORECASE if "i" in flags else 0).search
    except (re.error, RecursionError, OverflowError) as error:
        _say(["error", str(error)[:200]])
        return
    number, left, before = 1, int(most), 0
    while left and (line := sys.stdin.buffer.readline(_MAX_LINE_LENGTH)):
        text = line.decode("utf-8", "replace")
        match = search(text.rstrip("\r\n"))
        if match:
            left -= 1
            start = max(match.start() - _SHOWN // 2, 0) if match.start() > _SHOWN else 0
            _say([number, text[start : start + _SHOWN].rstrip("\r\n"), before + start])
        is_over = line.endswith(b"\n")
        number, before = number + is_over, 0 if is_over else before + len(text)
    _say(["end", number])


def _say(record: list[object]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
