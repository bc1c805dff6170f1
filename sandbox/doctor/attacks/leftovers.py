"""Attacks on the next call: leave something that it finds, or that changes what it does.

Whoever runs next may be another tool, of another author. Where a policy keeps boxes, both calls are in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sandbox.doctor.attacks.attack import Attack, Verdict, ending_of
from sandbox.doctor.attacks.marks import MARKS
from sandbox.outcome import Outcome, Status

CHANGES: Final = """
import atexit, builtins, gc, json, os, resource, signal, sys, threading, warnings

def leave() -> list:
    json.loads = lambda text: "changed"
    builtins.abs = lambda value: 42
    builtins.MARK = "mark"
    sys.modules["planted"] = json
    sys.path.insert(0, "/work")
    sys.argv.append("planted")
    sys.setrecursionlimit(333)
    sys.stdout.__dict__["mark"] = True
    sys.meta_path.append(planted)
    os.environ["MARK"] = "mark"
    os.environ["LD_PRELOAD"] = "/work/x.so"
    os.umask(0)
    os.chdir("/tmp")
    os.nice(5)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    atexit.register(print, "planted")
    gc.disable()
    warnings.simplefilter("error")
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    for name in ("sitecustomize.py", "json.py", ".pth"):
        open("/work/" + name, "w").write("raise SystemExit")
    return look()

def planted() -> None: ...

def look() -> list:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = {
        "function": json.loads("[]") != [],
        "builtin": abs(1) != 1,
        "name": hasattr(builtins, "MARK"),
        "module": "planted" in sys.modules,
        "path": "/work" in sys.path[:1],
        "argument": "planted" in sys.argv,
        "recursion": sys.getrecursionlimit() == 333,
        "stream": hasattr(sys.stdout, "mark"),
        "importer": any(getattr(each, "__name__", "") == "planted" for each in sys.meta_path),
        "variable": "MARK" in os.environ or "LD_PRELOAD" in os.environ,
        "umask": os.umask(0o077) == 0,
        "folder": os.getcwd() != "/work",
        "nice": os.nice(0) != os.getpriority(os.PRIO_PROCESS, os.getppid()),
        "signal": signal.getsignal(signal.SIGTERM) == signal.SIG_IGN,
        "mask": signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "limit": limit == (64, 64),
        "collector": not gc.isenabled(),
        "warnings": warnings.filters[0][0] == "error",
        "thread": threading.active_count() > 1,
        "start-up file": os.path.exists("/work/sitecustomize.py"),
    }
    return sorted(kind for kind, is_found in found.items() if is_found)
"""
KINDS_OF_CHANGES: Final = 20
OUTLIVE: Final = """
import ctypes, os, time

NAME = "left-behind"

def names() -> list:
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                found.append(open("/proc/" + pid + "/comm").read().strip())
            except OSError:
                continue
    return found

def leave() -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(256):
                try:
                    os.close(number)
                except OSError:
                    pass
            ctypes.CDLL(None).prctl(15, NAME.encode(), 0, 0, 0)
            while True:
                try:
                    open("/work/alive", "w").close()
                    open("/tmp/alive", "w").close()
                except OSError:
                    pass
                time.sleep(0.001)
        os._exit(0)
    os.wait()
    end = time.monotonic() + 5
    while NAME not in names() and time.monotonic() < end:
        time.sleep(0.005)
    return [name for name in names() if name == NAME]

def look() -> list:
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        if os.path.exists("/work/alive") or os.path.exists("/tmp/alive"):
            return ["alive"]
        time.sleep(0.005)
    return [name for name in names() if name == NAME]
"""


def _found_nothing(outcomes: Sequence[Outcome]) -> Verdict:
    """The first call tells what it left, the second what it found."""
    for outcome in outcomes:
        if outcome.status is not Status.OK or outcome.value is None:
            return Verdict(held=False, how=f"it tells nothing: {ending_of(outcome)}")
    left, found = (_names(outcome.value) for outcome in outcomes)
    if not left:
        return Verdict(held=False, how="it tells nothing: nothing could be left")
    if found:
        return Verdict(held=False, how=f"the next call found: {', '.join(found)}")
    return Verdict(held=True, how=f"{_counted(left)} left, and the next call found nothing")


def _names(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _counted(left: list[str]) -> str:
    return "one thing was" if len(left) == 1 else f"{len(left)} kinds of things were"


LEFTOVERS: Final = (
    Attack(
        "files, sockets, processes",
        "leave files, sockets, ports, queues, shared memory and processes for the next call",
        MARKS,
        _found_nothing,
        entries=("leave", "look"),
    ),
    Attack(
        "a changed interpreter",
        "change modules, variables, limits and signals that the next call uses",
        CHANGES,
        _found_nothing,
        entries=("leave", "look"),
    ),
    Attack(
        "a process that stays",
        "leave a process that nobody waits for, which goes on writing",
        OUTLIVE,
        _found_nothing,
        entries=("leave", "look"),
    ),
)
