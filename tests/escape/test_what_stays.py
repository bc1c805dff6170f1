"""Attack: leave something behind for the next call of the same box: files, sockets, keys, processes, changed modules.

Whoever runs next may be another tool, of another author; what it is told by `json.loads` or finds under /tmp must not
be up to the tool before.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from sandbox import Outcome, Status
from tests.escape.engines import Engine
from tests.escape.marks import KEPT_KINDS, MARKS


def _one_after_the_other(engine: Engine, source: str) -> tuple[Any, Any]:
    """What `leave` and then, in the same box, `look` returned."""
    left = _ok(engine.run(source, entry="leave"))
    found = _ok(engine.run(source, entry="look"))
    assert found.timing.path == "warm", "it ran in another box: this test can tell nothing"
    return left.value, found.value


def _ok(outcome: Outcome) -> Outcome:
    assert outcome.status is Status.OK, outcome.error
    return outcome


@pytest.mark.slow
def test_no_mark_of_a_call_is_there_for_the_next(engine: Engine) -> None:
    left, found = _one_after_the_other(engine, MARKS)
    assert set(left) == KEPT_KINDS
    assert found == []


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
        "nice": os.nice(0) != 0,
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


def test_no_change_of_the_interpreter_lasts(engine: Engine) -> None:
    left, found = _one_after_the_other(engine, CHANGES)
    assert len(left) == KINDS_OF_CHANGES, left
    assert found == []


OUTLIVE: Final = """
import os, time

def leave() -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(256):
                try:
                    os.close(number)
                except OSError:
                    pass
            while True:
                try:
                    open("/work/alive", "w").close()
                    open("/tmp/alive", "w").close()
                except OSError:
                    pass
                time.sleep(0.001)
        os._exit(0)
    os.wait()
    return "left"

def look() -> list:
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        if os.path.exists("/work/alive") or os.path.exists("/tmp/alive"):
            return ["alive"]
        time.sleep(0.005)
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and pid not in ("1", "2")]
"""


def test_no_process_outlives_its_call(engine: Engine) -> None:
    assert _one_after_the_other(engine, OUTLIVE) == ("left", [])
