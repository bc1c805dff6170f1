"""The floors' own small process: `python -I -S floor_program.py fork|spawn PYTHON`, one measurement per line it reads.

It is apart from the benchmark because a fork costs what its parent weighs: the floor is what a *small* Python pays.
Each answer is one line, the milliseconds it measured around its own work.
"""

import os
import sys
from time import perf_counter

_PROGRAM = "import json; print(json.dumps(2+3))"


def fork() -> None:
    """A child that answers on a pipe and is waited for."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(theirs, b"{}")
        os._exit(0)
    os.read(ours, 16)
    os.waitpid(pid, 0)
    os.close(ours)
    os.close(theirs)


def spawn() -> None:
    """A fresh interpreter that prints one JSON document."""
    import subprocess

    subprocess.run([sys.argv[2], "-I", "-S", "-c", _PROGRAM], capture_output=True, check=True)


def main() -> None:
    """Measure once for every line, until there are no more."""
    work = {"fork": fork, "spawn": spawn}[sys.argv[1]]
    work()
    for _ in sys.stdin:
        begun = perf_counter()
        work()
        print((perf_counter() - begun) * 1000, flush=True)


if __name__ == "__main__":
    main()
