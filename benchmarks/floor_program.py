"""The floors' own small process: `python -I -S floor_program.py fork|mute|spawn|walled|guarded ARGUMENT…`, one
measurement for each line it reads. The argument of `spawn` is an interpreter; those of the last two are the runner's
folder and a plan of walls.

It is apart from the benchmark because a fork costs what its parent weighs: the floor is what a *small* Python pays.
Each answer is one line, the milliseconds it measured around its own work.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAM = "import json; print(json.dumps(2+3))"


def fork() -> Callable[[], None]:
    """A child that adds two numbers, tells the sum on a pipe as a JSON document, and is waited for."""
    import json

    def answer() -> bytes:
        return json.dumps({"value": 2 + 3}).encode()

    def work() -> None:
        if json.loads(_told_by_a_child(answer)) != {"value": 5}:
            raise ValueError("the child's answer is wrong")

    return work


def mute() -> None:
    """A child that has nothing to say: two bytes, which were there before it."""
    _told_by_a_child(lambda: b"{}")


def _told_by_a_child(answer: Callable[[], bytes]) -> bytes:
    """What a new process answers on a pipe; it is gone by then."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(theirs, answer())
        os._exit(0)
    told = os.read(ours, 64)
    os.waitpid(pid, 0)
    os.close(ours)
    os.close(theirs)
    return told


def spawn() -> None:
    """A fresh interpreter that prints one JSON document."""
    import subprocess

    subprocess.run([sys.argv[2], "-I", "-S", "-c", _PROGRAM], capture_output=True, check=True)


def walled(*, is_guarded: bool) -> Callable[[], None]:
    """A child behind all walls of a call that answers, or, where it is the guard of one, one below it: what the kernel
    alone takes for a call on demand, with as little around it as there can be. It is not counted what taking them down
    takes."""
    sys.path.insert(0, sys.argv[2])

    from box import call_isolation, fast_json, isolation, pipes

    plan = fast_json.read(sys.argv[3])
    plan["filter"] = bytes.fromhex(plan["filter"])
    call_isolation.prepare(plan)
    place = plan["handed"][2]

    def work() -> None:
        ours, theirs = os.pipe()
        pipes.hand(theirs, place)
        if not isolation.fork(plan):
            try:
                call_isolation.put_up(plan)
                if not is_guarded or not os.fork():
                    os.write(2, b"{}")
                    os._exit(0)
                os.wait()
            finally:
                os._exit(0)
        pipes.take_back([place])
        if os.read(ours, 16) != b"{}":
            raise OSError("a wall could not be put up")
        os.close(ours)

    return work


def _reap() -> None:
    """Wait for what is left of the last time."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def main() -> None:
    """Measure once for every line, until there are no more."""
    kind = sys.argv[1]
    plain = {"mute": mute, "spawn": spawn}
    work = plain.get(kind) or (fork() if kind == "fork" else walled(is_guarded=kind == "guarded"))
    work()
    for _ in sys.stdin:
        begun = perf_counter()
        work()
        print((perf_counter() - begun) * 1000, flush=True)
        _reap()


if __name__ == "__main__":
    main()
