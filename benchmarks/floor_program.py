"""The small process of the floors: `python -I -S floor_program.py fork|mute|spawn|walled|guarded ARGUMENT…`.

The program makes one measurement for each line that it reads, and answers with one line, the milliseconds of its own
work. The argument of `spawn` is an interpreter; the arguments of `walled` and `guarded` are the runner's folder and an
isolation plan.

The program is separate from the benchmark because the cost of a fork grows with the parent's memory: the floor is the
cost for a *small* Python.
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
    """Fork a child that adds two numbers and writes the sum to a pipe as a JSON document, and wait for the child."""
    import json

    def answer() -> bytes:
        return json.dumps({"value": 2 + 3}).encode()

    def work() -> None:
        if json.loads(_read_child(answer)) != {"value": 5}:
            raise ValueError("the child's answer is wrong")

    return work


def mute() -> None:
    """Fork a child that writes two constant bytes, and wait for it."""
    _read_child(lambda: b"{}")


def _read_child(answer: Callable[[], bytes]) -> bytes:
    """Return the answer of a new process from a pipe, after the process has ended."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(theirs, answer())
        os._exit(0)
    reply = os.read(ours, 64)
    os.waitpid(pid, 0)
    os.close(ours)
    os.close(theirs)
    return reply


def spawn() -> None:
    """Start a fresh interpreter that prints one JSON document."""
    import subprocess

    subprocess.run([sys.argv[2], "-I", "-S", "-c", _PROGRAM], capture_output=True, check=True)


def walled(*, is_guarded: bool) -> Callable[[], None]:
    """Fork a child that isolates itself as for a call and answers, or whose own child does, if it is a guard: the
    kernel's share of a call on demand, with as little code around it as possible. Removing the namespaces afterwards
    does not count.
    """
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
                call_isolation.set_up(plan)
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
    """Wait for the remaining processes of the last measurement."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def main() -> None:
    """Measure once for every line of standard input."""
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
