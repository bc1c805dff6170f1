"""Answers for a fake box that repeat the contract's tools: each entry is the twin of the tool of that name."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from sandbox.testing import Answer, crashes, exceeds, exits, gives, hangs, leaves, prints, raises, returns, script
from sandbox.testing.contract.files import CONTENT


def _speak(lines: int) -> Answer:
    out, err = ("".join(f"{stream} {number}\n" for number in range(lines)) for stream in ("out", "err"))
    return script(prints(out, stderr=err), returns("spoken"))


def _write(text: str, times: int) -> Answer:
    return script(*[prints(text.encode("latin-1"))] * times, returns("written"))


def _leave(code: Any) -> Answer:
    try:
        sys.exit(code)
    except SystemExit as stop:
        says = f"{code}\n" if isinstance(code, str) else ""
        return script(prints("before\n", stderr=says), raises(stop))


def _fail(message: str) -> None:
    raise ValueError(message)


async def _wait(s: float) -> float:
    await asyncio.sleep(s)
    return s


def _kinds(a: int, b: int, c: int = 3, **rest: int) -> list[Any]:
    return [a, b, c, rest]


TWINS: dict[str, Answer] = {
    "add": lambda a, b: a + b,
    "copy": script(leaves({"sub/left.bin": CONTENT}, refused={"link": "it is a symbolic link"}), returns(["data"])),
    "counts": lambda n: list(range(n)),
    "echo": returns,
    "fail": _fail,
    "fill": exceeds("disk"),
    "fork_on": exceeds("processes"),
    "grow": exceeds("file_size"),
    "tool": lambda n: gives(*({"number": number} for number in range(n))),
    "hang_after": lambda text: script(prints(text + "\n"), hangs()),
    "hoard": exceeds("memory"),
    "hold_open": exceeds("open_files"),
    "ignore_everything": hangs(),
    "kinds": _kinds,
    "later": lambda n: n + 1,
    "leave": _leave,
    "leave_and_hang": script(leaves({"part.txt": "so far"}), prints("written\n"), hangs()),
    "measure": lambda text: [len(text), text[-3:]],
    "nothing": None,
    "quit_at_once": lambda code: exits(code, silently=True),
    "return_much": lambda size: "x" * size,
    "scatter": exceeds("inodes"),
    "signal_itself": lambda number: crashes(signal.Signals(number)),
    "sleep": hangs(),
    "speak": _speak,
    "spin": exceeds("cpu"),
    "squares": lambda n: [i * i for i in range(n)],
    "start_threads": exceeds("processes"),
    "wait": _wait,
    "write": _write,
}
