"""Attacks on the next call: leave something that it finds, or that changes it.

The next call may be another tool, of another author. If the policy allows reuse, both calls run in one box. A program
plants its marks and looks for them with the same source, so that a look that finds nothing is known to find marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sandbox.doctor.attacks.attack import Attack, Program, Verdict, ending_of
from sandbox.outcome import Outcome, Status

KEPT_KINDS: Final = {
    *("file in the workplace", "file in /tmp", "file in /dev/shm", "open file", "process", "variable"),
    *("abstract socket", "path socket", "TCP port", "UDP port", "shared memory", "semaphore", "message queue"),
}
"""The marks that a call can plant and another process of the same call can see."""
REFUSED_KINDS: Final = {"shared memory", "semaphore", "message queue"}
"""The marks that a call without a control group cannot plant."""

MARKS: Final = """
import ctypes, errno, json, os, socket, time

libc = ctypes.CDLL(None, use_errno=True)
NAME, KEY, PORT, CREATE = "planted-mark", 0x5AFE, 40123, 0o1600
PLACES = {"file in the workplace": "/work/", "file in /tmp": "/tmp/", "file in /dev/shm": "/dev/shm/"}
FILES = {kind: place + NAME for kind, place in PLACES.items()}
held, refused = [], []

def listen(family: int, kind: int, address: object) -> None:
    held.append(socket.socket(family, kind))
    held[-1].bind(address)
    if kind == socket.SOCK_STREAM:
        held[-1].listen()

def reaches(family: int, address: object) -> bool:
    with socket.socket(family) as near:
        return near.connect_ex(address) == 0

def udp_is_taken() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
        near.connect(("127.0.0.1", PORT))
        near.settimeout(0.05)
        try:
            near.send(b"x")
            near.recv(1)
        except ConnectionRefusedError:
            return False
        except TimeoutError:
            return True
    return True

def texts_of_processes(file: str) -> list:
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/" + pid + "/" + file, "rb") as text:
                    found.append(text.read().decode(errors="replace"))
            except OSError:
                continue
    return found

def links() -> list:
    found = []
    for pid in os.listdir("/proc"):
        folder = "/proc/" + pid + "/fd"
        try:
            found += [os.readlink(folder + "/" + number) for number in os.listdir(folder)] if pid.isdigit() else []
        except OSError:
            continue
    return found

def plant() -> None:
    for path in FILES.values():
        with open(path, "w") as file:
            file.write(NAME)
    held.append(open("/work/opened-" + NAME, "w"))
    listen(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + NAME)
    listen(socket.AF_UNIX, socket.SOCK_STREAM, "/tmp/socket-" + NAME)
    listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
    listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT))
    for number in (libc.shmget(KEY, 4096, CREATE), libc.semget(KEY, 1, CREATE), libc.msgget(KEY, CREATE)):
        if number < 0:
            assert ctypes.get_errno() == errno.ENOSYS, "no System V object can be made"
            refused.append(number)
    os.environ[NAME] = "set"
    child = os.fork()
    if child == 0:
        libc.prctl(15, b"marked-process", 0, 0, 0)
        os.execve("/bin/sleep", ["sleep", "20"], {"VARIABLE": NAME}) if os.fork() else time.sleep(20)

def seen() -> list:
    found = {kind: os.path.exists(path) for kind, path in FILES.items()}
    found["open file"] = any("opened-" in link for link in links())
    found["abstract socket"] = reaches(socket.AF_UNIX, "\\0" + NAME)
    found["path socket"] = reaches(socket.AF_UNIX, "/tmp/socket-" + NAME)
    found["TCP port"] = reaches(socket.AF_INET, ("127.0.0.1", PORT))
    found["UDP port"] = udp_is_taken()
    found["shared memory"] = libc.shmget(KEY, 0, 0) >= 0
    found["semaphore"] = libc.semget(KEY, 0, 0) >= 0
    found["message queue"] = libc.msgget(KEY, 0) >= 0
    found["process"] = any("marked-process" in text for text in texts_of_processes("comm"))
    found["variable"] = any(NAME in text for text in texts_of_processes("environ"))
    return sorted(kind for kind, is_seen in found.items() if is_seen)

def all_is_there() -> list:
    # the child needs a moment
    deadline = time.monotonic() + 5
    while len(seen()) < %d - len(refused) and time.monotonic() < deadline:
        time.sleep(0.005)
    return seen()

def leave() -> list:
    plant()
    return all_is_there()

def stay() -> None:
    plant()
    print(json.dumps(all_is_there()), flush=True)
    time.sleep(20)

def look() -> list:
    return seen()
""" % len(KEPT_KINDS)  # noqa: UP031 - the source is full of braces

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
    # The first call returns its marks, the second one the marks that it found.
    for outcome in outcomes:
        if outcome.status is not Status.OK or outcome.value is None:
            return Verdict(held=False, how=f"inconclusive: {ending_of(outcome)}")
    left, found = (_names(outcome.value) for outcome in outcomes)
    if not left:
        return Verdict(held=False, how="inconclusive: no mark could be left")
    if found:
        return Verdict(held=False, how=f"the next call found: {', '.join(found)}")
    return Verdict(held=True, how=f"{_counted(left)} left, and the next call found nothing")


def _names(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _counted(left: list[str]) -> str:
    return "one thing was" if len(left) == 1 else f"{len(left)} kinds of things were"


LEFTOVERS: Final = (
    Attack(
        "leftovers",
        "leave files, sockets, queues, processes, and changes of the interpreter for the next call",
        (
            Program("files, sockets, processes", MARKS, _found_nothing, entries=("leave", "look")),
            Program("a changed interpreter", CHANGES, _found_nothing, entries=("leave", "look")),
            Program("a process that stays", OUTLIVE, _found_nothing, entries=("leave", "look")),
        ),
    ),
)
