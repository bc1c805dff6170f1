"""A hostile package in many modes, each as a wheel whose code runs on import, or by a `.pth` line when Python starts.

The package cooperates with the tests in what proves that an attack ran, and in nothing else:

* its module keeps a `REPORT`, one entry for each probe, which the tool returns;
* each process that it starts takes a name with the token of the test run, which `/proc/<pid>/comm` shows on the host;
* a mode that ends its process prints a line first, or ends with a code or signal that nothing else here uses.

An `OSError` that a probe meets is a wall, and is part of the report. Any other exception is a mistake in the probe.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.indexes import make_wheel
from tests.provision import debian

Form = Literal["import", "pth", "sitecustomize"]
_FORMS: Final[tuple[Form, ...]] = ("import", "pth", "sitecustomize")

EXIT_CODE: Final = 37
EXEC_CODE: Final = 38
FORK_FAILURE_CODE: Final = 71
"""The runner's own exit code when the kernel refuses a process for a call."""
SURVIVOR: Final = "srv"
HANGING: Final = "hng"
HOLDER: Final = "mem"
RAN: Final = "hostile code ran"
FORGED: Final = "forged by a package"

_COMMON: Final = """
import ctypes, gc, json, os, select, signal, struct, sys, threading, time

MODE, TOKEN, RAN, FORGED = {mode!r}, {token!r}, {ran!r}, {forged!r}
MEMORY, PROCESSES = {memory!r}, {processes!r}
REPORT = {{"mode": MODE, "pid": os.getpid(), "kept": []}}
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
MACHINE = os.uname().machine
NUMBERS = {{
    "x86_64": dict(clone=56, timer_create=222, timer_settime=223, ptrace=101, kill=62, mount=165, unshare=272,
                   setns=308, process_vm_readv=310, pidfd_getfd=438, pidfd_open=434),
    "aarch64": dict(clone=220, timer_create=107, timer_settime=110, ptrace=117, kill=129, mount=40, unshare=97,
                    setns=268, process_vm_readv=270, pidfd_getfd=438, pidfd_open=434),
}}[MACHINE]
held = []


def rename(kind):
    libc.prctl(15, (kind + TOKEN).encode(), 0, 0, 0)


def spin():
    # busy a part of the time, so that the call's own thread gets on, on a busy machine too
    while True:
        for _ in range(30_000):
            pass
        time.sleep(0.002)


def fork_away(kind, act):
    # a child of a child, in a session of its own, which no parent waits for
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                rename(kind)
                act()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return "done"


def frames():
    found = []
    for frame in list(sys._current_frames().values()) + [sys._getframe()]:
        while frame is not None:
            found.append(frame)
            frame = frame.f_back
    return found


def runner_names():
    # the dictionary of every module of the runner that this interpreter holds, by four roads and all ways on from there
    known = ("call_isolation", "measure", "guard", "rlimits", "capabilities", "seccomp", "landlock", "isolation",
             "zygote", "child", "pipes", "children", "tool_process", "verification", "template", "mounts", "clone",
             "script")
    roads = {{
        "frames": [frame.f_globals for frame in frames()],
        "modules": [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")],
        "objects": [vars(each) for each in gc.get_objects() if type(each) is type(sys)],
        "functions": [each.__globals__ for each in gc.get_objects() if hasattr(each, "__globals__")],
    }}
    REPORT["roads"] = {{road: len(each) for road, each in roads.items()}}
    pending = [names for road in roads.values() for names in road]
    found, seen = {{}}, set()
    while pending:
        names = pending.pop()
        if id(names) in seen:
            continue
        seen.add(id(names))
        name, place = str(names.get("__name__")), str(names.get("__file__"))
        is_ours = "/runners/python/" in place or place.startswith("/runner/")
        if is_ours or (name.rpartition(".")[2] in known and "site-packages" not in place):
            found[id(names)] = names
            for value in list(names.values()):
                pending += [vars(value)] if type(value) is type(sys) else []
                pending += [value.__globals__] if hasattr(value, "__globals__") else []
    REPORT["runner"] = sorted(str(names.get("__name__")) for names in found.values())
    return list(found.values())


def report():
    if "later" in globals():
        REPORT["later"] = later()
    return {{name: value for name, value in REPORT.items() if name != "kept"}}
"""

_PROBES: Final[dict[str, str]] = {
    # Walls are taken down and measurements flattered, as the attack did that this project learned of first.
    "strips": """
def flatter(measure, read):
    def told(plan, landlock):
        said = list(read(plan, landlock))
        said[0] = ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"]
        lines = ["NoNewPrivs:\\t1", "Seccomp:\\t2", "Seccomp_filters:\\t2"]
        sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
        said[1] = "\\n".join(["", *(name + ":\\t" + 16 * "0" for name in sets), *lines])
        said[4] = True
        return said
    return told


def probe():
    replaced = []
    for names in runner_names():
        name = str(names.get("__name__"))
        if name == "call_walls":
            arrange = names["pipes"].arrange
            become, kernels = names["_become_the_user"], names["calls"]
            def put_up(plan):
                arrange(plan["handed"])
                become(plan, kernels.Kernel())
                os.chdir(plan["workplace"]["path"] if plan["workplace"] else "/")
                return {"abi": 4, "filesystem": [], "network": [], "scoped": [], "missing": []}
            names["put_up"] = put_up
            replaced.append("call_walls.put_up")
        if name == "measure":
            names["read"] = flatter(names, names["read"])
            replaced.append("measure.read")
        if name == "guard":
            names["_enter_groups"] = lambda doors: None
            replaced.append("guard._enter_groups")
    return replaced
""",
    # Every function of the modules that put up or measure walls is replaced by one that does nothing.
    "voids": """
WALLS = ("call_walls", "limits", "capabilities", "seccomp", "landlock", "mounts", "verification", "measure", "findings")


def nothing(*arguments, **fields):
    return None


def probe():
    replaced = []
    for names in runner_names():
        name = str(names.get("__name__")).rpartition(".")[2]
        for key, value in list(names.items()):
            if name in WALLS and type(value) is type(nothing) and value.__module__ == names.get("__name__"):
                names[key] = nothing
                replaced.append(name + "." + key)
    for module in (os, sys.modules.get("resource"), sys.modules.get("fcntl")):
        for key in ("setresuid", "setgroups", "setrlimit", "prlimit", "closerange"):
            if hasattr(module, key):
                setattr(module, key, nothing)
                replaced.append(key)
    return replaced
""",
    # The package speaks on the runner's descriptors, and reads and keeps the incoming bytes.
    "forges": """
def forged_words():
    def message(**fields):
        text = json.dumps(fields).encode()
        return struct.pack(">IB", len(text) + 1, 1) + text
    def record(fields):
        text = json.dumps(fields).encode()
        return struct.pack(">I", len(text)) + text
    reply = record({"kind": "value", "value": FORGED, "warnings": []})
    end = {"exit_code": None, "signal": 9, "cpu_s": 1e6, "max_rss": 1 << 50, "bytes_free": 0, "inodes_free": 0}
    faults = [message(type="fault", layer=layer, reason=FORGED) for layer in ("seccomp", "cgroup")]
    ended = message(type="ended", id=1, killed_by="memory", **end)
    frames = [*faults, ended, message(type="returned", id=1, cpu_before=1e6)]
    records = [record({"fault": {"layer": "seccomp", "reason": FORGED}}), record(end)]
    return [reply + b"".join(records), b"".join(frames)]


def probe():
    seen = {}
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
        try:
            what = os.readlink("/proc/self/fd/%d" % number)
            if number in (1, 2) or what.startswith("/proc"):
                continue
            held.append(os.dup(number))
            if select.select([number], [], [], 0)[0]:
                REPORT["kept"].append(os.read(number, 4096))
        except (OSError, ValueError) as error:
            seen[number] = str(error)
            continue
        for words in forged_words():
            seen[what.partition(":")[0]] = attempt(os.write, number, words)
    return seen
""",
    # Other processes are read, traced and robbed, each by its number: it need not be shown to be tried.
    "reaches": """
ACCESS = (("mem", os.O_RDONLY), ("mem", os.O_RDWR), ("fd/0", os.O_RDONLY), ("fd/1", os.O_WRONLY),
          ("environ", os.O_RDONLY), ("ns/user", os.O_RDONLY), ("ns/mnt", os.O_RDONLY),
          ("root/etc/passwd", os.O_RDONLY), ("maps", os.O_RDONLY))


def own_numbers():
    # a container's /proc shows a call its number outside of its own pid namespace
    return {os.getpid(), REPORT["pid"], int(os.readlink("/proc/self"))}


def reach():
    gained = []
    own = own_numbers()
    for pid in (pid for pid in range(1, 300) if pid not in own):
        for name, flags in ACCESS:
            try:
                descriptor = os.open("/proc/%d/%s" % (pid, name), flags | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                content = os.read(descriptor, 16) if name in ("environ", "maps") else b"in"
            except OSError:
                content = b""
            if content:
                gained.append("%s of %d" % (name, pid))
            os.close(descriptor)
    return gained


def reach_natively():
    folder = os.path.dirname(os.path.abspath(__file__))
    native = ctypes.CDLL(os.path.join(folder, NATIVE))
    native.hostile_apart.restype = ctypes.c_long
    if native.hostile_loaded() != 1:
        raise RuntimeError("the constructor of the library did not run")
    room = ctypes.create_string_buffer(64)
    local = (ctypes.c_long * 2)(ctypes.addressof(room), 8)
    remote = (ctypes.c_long * 2)(0x400000, 8)
    gained = []
    for pid in [pid for pid in range(1, 17) if pid not in own_numbers()]:
        tries = {
            "attach": ("ptrace", 16, pid, 0, 0, 0, 0),
            "seize": ("ptrace", 0x4206, pid, 0, 0, 0, 0),
            "vm": ("process_vm_readv", pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0),
        }
        for name, (call, *arguments) in tries.items():
            status = native.hostile_apart(*map(ctypes.c_long, (NUMBERS[call], *arguments)))
            if status == 0:
                gained.append("%s of %d" % (name, pid))
    for name, arguments in {"unshare": (0x10000000, 0, 0, 0, 0, 0), "mount": (0, 0, 0, 0, 0, 0)}.items():
        if native.hostile_apart(*map(ctypes.c_long, (NUMBERS[name], *arguments))) == 0:
            gained.append(name)
    return gained


def probe():
    return {"gained": reach(), "natively": reach_natively()}


def later():
    return {"gained": reach(), "natively": reach_natively()}
""",
    # Processes that outlive their parents: spinners, sleepers, zombies, orphans.
    "survives": """
def multiply():
    if os.fork() == 0:
        os._exit(0)
    while True:
        time.sleep(60)


def stubborn():
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    spin()


def probe():
    left = [attempt(fork_away, {survivor!r}, act) for act in (spin, stubborn, multiply)]
    if os.fork() == 0:
        os._exit(0)
    return left
""".replace("{survivor!r}", repr(SURVIVOR)),
    # Code that acts after the import: timers, signal handlers, hooks of fork and exit, in Python and in C.
    "lurks": """
CHILD_HOOK = ctypes.CFUNCTYPE(None)


def spawn(*_):
    generation = REPORT.get("generation", 0)
    if generation > 1:  # each process spawns a second after its start: a slow call would soon starve
        return
    try:
        if os.fork() == 0:
            REPORT["generation"] = generation + 1
            os.setsid()
            rename({survivor!r})
            spin()
    except OSError:
        pass


def start_thread():
    try:
        threading.Thread(target=spin, daemon=True).start()
        REPORT["thread after fork"] = True
    except RuntimeError:
        REPORT["thread after fork"] = False


@CHILD_HOOK
def after_fork_in_c():
    libc.alarm(1)


def probe():
    import atexit
    atexit.register(spawn)
    handled = 0
    for number in signal.valid_signals() - {signal.SIGCHLD, signal.SIGCONT}:
        try:
            signal.signal(number, spawn)
            handled += 1
        except (OSError, ValueError):
            continue
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    os.register_at_fork(before=lambda: None, after_in_parent=spawn_once, after_in_child=start_thread)
    handle = getattr(libc, "__register_atfork", None)
    added = handle(None, None, after_fork_in_c, None) if handle is not None else None
    held.append(after_fork_in_c)
    return {"handlers": handled, "hook in C": added}


def spawn_once():
    if not REPORT.get("spawned"):
        REPORT["spawned"] = True
        spawn()
""".replace("{survivor!r}", repr(SURVIVOR)),
    # Threads are allowed; what they do while no call runs is not. A kernel timer wakes a process that was stopped.
    "wakes": """
def fork_now_and_then():
    time.sleep(0.3)
    fork_away({survivor!r}, spin)
    spin()


def probe():
    done = {}
    event, timer = ctypes.create_string_buffer(64), ctypes.c_int()
    struct.pack_into("Qii", event, 0, 0, signal.SIGCONT, 0)
    if libc.syscall(NUMBERS["timer_create"], 1, ctypes.byref(event), ctypes.byref(timer)) < 0:
        done["timer"] = os.strerror(ctypes.get_errno())
    else:
        every = struct.pack("qqqq", 0, 5_000_000, 0, 5_000_000)
        done["timer"] = "done" if libc.syscall(NUMBERS["timer_settime"], timer, 0, every, None) == 0 else "refused"
    for act in (spin, fork_now_and_then):
        try:
            threading.Thread(target=act, daemon=True).start()
        except RuntimeError as error:
            done["refused"] = str(error)
    done["threads"] = threading.active_count()
    return done
""".replace("{survivor!r}", repr(SURVIVOR)),
    # Memory that all forks of this process have in common carries words from one call to the next.
    "shares": """
import mmap

try:
    SHARED = mmap.mmap(-1, 4096)
except OSError:  # refused where no control group counts such memory
    SHARED = bytearray(4096)


def probe():
    return "done"


def later():
    found = SHARED[:14].rstrip(b"\\0").decode()
    SHARED[:14] = b"left by a call"
    return {"found": found}
""",
    # Descriptors that all forks of this process have in common do the same, where they stay open.
    "keeps": """
import socket

NEAR, FAR = socket.socketpair()
held.extend([os.dup(NEAR.fileno()), os.dup(FAR.fileno())])
for each in (NEAR, FAR):
    each.setblocking(False)


def probe():
    return "done"


def later():
    found = ""
    try:
        found = FAR.recv(100).decode()
        FAR.close()
    except OSError:
        pass
    attempt(NEAR.send, b"left by a call")
    return {"found": found}
""",
    # A fork that leaves parent and child one table of descriptors: what a call opens, the next one holds too.
    "clones": """
CLONE_FILES, CLONE_FS = 0x400, 0x200


def fork_with_shared_files():
    python = ctypes.PyDLL(None, use_errno=True)
    python.syscall.restype = ctypes.c_long
    python.PyOS_BeforeFork()
    pid = python.syscall(NUMBERS["clone"], ctypes.c_long(CLONE_FILES | CLONE_FS | signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def probe():
    original, replaced = os.fork, 0
    for names in [vars(sys.modules["posix"]), vars(os), *runner_names()]:
        for key, value in list(names.items()):
            if value is original:
                names[key] = fork_with_shared_files
                replaced += 1
            if key in ("close_from", "close_at_once"):
                names[key] = lambda *_: None
    return replaced
""",
    # The same by what is opened only when the first call is made, and not closed when it should be.
    "hides": """
import socket

ENDS = []


def open_ends():
    if not ENDS:
        for each in socket.socketpair():
            each.setblocking(False)
            ENDS.append(os.dup(each.fileno()))


def probe():
    os.register_at_fork(before=open_ends)
    replaced = 0
    for names in runner_names():
        for key in ("close_from", "close_at_once", "closerange"):
            if key in names:
                names[key] = lambda *_: None
                replaced += 1
    os.closerange = lambda *_: None
    return replaced


def later():
    found = ""
    if ENDS:
        try:
            found = os.read(ENDS[0], 100).decode()
        except OSError:
            pass
        attempt(os.write, ENDS[1], b"left by a call")
    return {"found": found, "ends": len(ENDS)}
""",
    # A signal that a kernel timer sends wakes a process that was stopped, and the handler runs what it likes.
    "revives": """
def spin_a_little(*_):
    end = time.process_time() + 0.003
    while time.process_time() < end:
        pass


def probe():
    event, timer = ctypes.create_string_buffer(64), ctypes.c_int()
    struct.pack_into("Qii", event, 0, 0, signal.SIGCONT, 0)
    signal.signal(signal.SIGCONT, spin_a_little)
    if libc.syscall(NUMBERS["timer_create"], 1, ctypes.byref(event), ctypes.byref(timer)) < 0:
        return os.strerror(ctypes.get_errno())
    every = struct.pack("qqqq", 0, 5_000_000, 0, 5_000_000)
    return "done" if libc.syscall(NUMBERS["timer_settime"], timer, 0, every, None) == 0 else "refused"
""",
    # Keep the inputs of one call, and use them against that call during the next one.
    "robs": """
REPLY = json.dumps({"kind": "value", "value": FORGED, "warnings": []}).encode()
RECORD = struct.pack(">I", len(REPLY)) + REPLY
kept = []


def keep(number):
    kept.append(number)


def forge():
    for number in kept:
        try:
            if os.readlink("/proc/self/fd/%d" % number).startswith("pipe") and select.select([], [number], [], 0)[1]:
                os.write(number, RECORD)
        except (OSError, ValueError):
            continue


def probe():
    original, replaced = os.close, 0
    for names in [vars(os), vars(sys.modules["posix"]), *runner_names()]:
        for key, value in list(names.items()):
            if value is original:
                names[key] = keep
                replaced += 1
    os.register_at_fork(before=forge)
    return replaced
""",
    # Whatever this process may signal is killed, each by its number, whenever it forks.
    "murders": """
def murder():
    spared = {os.getpid(), os.getppid(), REPORT["pid"]}
    for pid in range(2, 600):
        if pid not in spared:
            attempt(os.kill, pid, signal.SIGKILL)


def probe():
    os.register_at_fork(before=murder)
    return "done"
""",
    # Memory and processes beyond the limits, in each of the ways in which they can be spread.
    "bombs": """
def probe():
    print(RAN, flush=True)
    count, refused, end = 0, 0, time.monotonic() + 1.0
    while refused < 50 and count < 8 * PROCESSES and time.monotonic() < end:
        try:
            if os.fork() == 0:
                rename({survivor!r})
                time.sleep(60)
                os._exit(0)
            count += 1
        except OSError:
            refused += 1
    return {"processes": count, "refused": refused}
""".replace("{survivor!r}", repr(SURVIVOR)),
    "swells": """
def probe():
    print(RAN, flush=True)
    rename({holder!r})
    taken = 0
    while taken < 3 * MEMORY:
        try:
            held.append(bytearray(b"x") * (4 << 20))
        except MemoryError:
            break
        taken += 4 << 20
    return {"bytes": taken}
""".replace("{holder!r}", repr(HOLDER)),
    "scatters": """
def probe():
    print(RAN, flush=True)
    started, size = 0, MEMORY // 4
    for _ in range(12):
        try:
            if os.fork() == 0:
                rename({holder!r})
                kept = bytearray(b"x") * size
                time.sleep(60)
                os._exit(len(kept) and 0)
            started += 1
        except OSError:
            break
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.01)
    return {"processes": started, "bytes": 0}
""".replace("{holder!r}", repr(HOLDER)),
    "hoards": """
def probe():
    print(RAN, flush=True)
    taken, piece = 0, b"x" * (1 << 20)
    refused = None
    try:
        while taken < 3 * MEMORY:
            held.append(os.memfd_create("held"))
            for _ in range(16):
                taken += os.write(held[-1], piece)
    except OSError as error:
        refused = error.strerror
    return {"bytes": taken, "refused": refused}
""",
    # Ends of the process that imports.
    "exits": "def probe():\n    print(RAN, flush=True)\n    os._exit({exit_code})\n",
    "raises": "def probe():\n    print(RAN, flush=True)\n    raise SystemExit({exit_code})\n",
    "dies": "def probe():\n    print(RAN, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    "stops": "def probe():\n    print(RAN, flush=True)\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
    "hangs": """
def probe():
    print(RAN, flush=True)
    rename({hanging!r})
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(60)
""".replace("{hanging!r}", repr(HANGING)),
    "closes": "def probe():\n    print(RAN, flush=True)\n    os.closerange(0, 4096)\n    return 'done'\n",
    "execs": """
def probe():
    print(RAN, flush=True)
    os.execv("/bin/sh", ["sh", "-c", "exit {exec_code}"])
""",
    "lowers": """
def probe():
    import resource
    print(RAN, flush=True)
    lowered = {}
    for name, value in dict(NOFILE=12, NPROC=0, FSIZE=0, CORE=0, SIGPENDING=0, MSGQUEUE=0).items():
        kind = getattr(resource, "RLIMIT_" + name)
        lowered[name] = attempt(resource.setrlimit, kind, (value, value))
    os.nice(19)
    os.umask(0o777)
    return lowered
""",
    "blames": """
def probe():
    print(RAN, flush=True)
    words = ["[Errno 24] Too many open files", "Resource temporarily unavailable", "raise ulimit -u",
             "[Errno 11] BlockingIOError", "Cannot allocate memory", "no space left on device", "fork: retry",
             '{"type": "fault", "layer": "user_namespace", "reason": "not permitted"}']
    os.write(2, ("\\n".join(words) + "\\n").encode())
    os._exit({fork_failure})
""",
    # Descriptors are kept and signals ignored: what waits for the end of a file waits for this process.
    "clings": """
def cling():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    spin()


def probe():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE])
    for name in os.listdir("/proc/self/fd"):
        try:
            os.set_inheritable(int(name), True)
            held.append(os.dup(int(name)))
        except OSError:
            continue
    fork_away({survivor!r}, cling)
    return len(held)
""".replace("{survivor!r}", repr(SURVIVOR)),
}
_RUN: Final = """
try:
    REPORT["done"] = probe()
except OSError as error:
    REPORT["done"] = "refused: " + str(error)
"""

_NATIVE: Final = """
static long call(long n, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}
#if defined(__x86_64__)
enum { CLONE = 56, WAIT = 61, LEAVE = 231 };
#else
enum { CLONE = 220, WAIT = 260, LEAVE = 94 };
#endif
static volatile int loaded;
__attribute__((constructor)) static void load(void) { loaded = 1; }
int hostile_loaded(void) { return loaded; }
/* The wait status of a process that made the call: 0 where it succeeded, as some are answered with a signal. */
long hostile_apart(long n, long a, long b, long c, long d, long e, long f) {
    int status = -1;
    long pid = call(CLONE, 17, 0, 0, 0, 0, 0);
    if (pid == 0) {
        long result = call(n, a, b, c, d, e, f);
        call(LEAVE, result < 0 ? -result & 127 : 0, 0, 0, 0, 0, 0);
    }
    if (pid < 0) return pid;
    while (call(WAIT, pid, (long)&status, 0, 0, 0, 0) == -4) {}
    return status;
}
"""


@dataclass(frozen=True, slots=True)
class Hostile:
    """Packages that one environment has: what their code does, and when that runs."""

    modes: tuple[str, ...]
    form: Form

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_name(mode, self.form) for mode in self.modes)

    @property
    def codes(self) -> tuple[str, ...]:
        """How the names of the processes end that these packages start."""
        return tuple(_process_code(mode, self.form) for mode in self.modes)

    def __str__(self) -> str:
        return f"{'+'.join(self.modes)}-{self.form}"


def hostile(form: Form, *modes: str) -> Hostile:
    """The packages of these modes, in that form."""
    return Hostile(modes, form)


def make_wheels(folder: Path, *, token: str, memory: int, processes: int) -> None:
    """Make a wheel of every mode in every form; `memory` and `processes` are the limits that they try to pass."""
    native = _build_native(folder)
    for mode in _PROBES:
        for form in _FORMS:
            code = _code(mode, form, token=token, memory=memory, processes=processes)
            _make(folder, mode, form, code, {_library(mode, form): native} if mode == "reaches" else {})
    make_wheel(folder, "honest", "1.0", {"honest.py": "VERSION = '1.0'\n"})


def _name(mode: str, form: Form) -> str:
    return f"hostile_{mode}_{form}"


def _process_code(mode: str, form: Form) -> str:
    return f"{list(_PROBES).index(mode):02}{form[0]}"


def _library(mode: str, form: Form) -> str:
    return f"{_name(mode, form)}_native.so"


def _code(mode: str, form: Form, *, token: str, memory: int, processes: int) -> str:
    name = token + _process_code(mode, form)  # the kernel keeps 15 characters of it, three of which say the kind
    values = {"mode": mode, "token": name, "memory": memory, "processes": processes}
    start = _COMMON.format(ran=RAN, forged=FORGED, **values)
    return start + f"NATIVE = {_library(mode, form)!r}\n" + _fill(_PROBES[mode]) + _RUN


def _make(folder: Path, mode: str, form: Form, code: str, files: dict[str, bytes]) -> None:
    name = _name(mode, form)
    found: dict[str, str | bytes] = {f"{name}.py": code, **files}
    if form == "pth":
        found[f"{name}.pth"] = f"import {name}\n"
    if form == "sitecustomize":
        found["sitecustomize.py"] = f"import {name}\n"
    make_wheel(folder, name, "1.0", found)


def _fill(code: str) -> str:
    codes = {"{exit_code}": EXIT_CODE, "{exec_code}": EXEC_CODE, "{fork_failure}": FORK_FAILURE_CODE}
    for name, number in codes.items():
        code = code.replace(name, str(number))
    return code


def _build_native(folder: Path) -> bytes:
    """Compile the library, which calls the kernel itself and so loads into every Python of this machine's kind."""
    debian.require("gcc")
    source, library = folder / "native.c", folder / "native.so"
    source.write_text(_NATIVE)
    flags = ("-shared", "-fPIC", "-nostdlib", "-O1", "-fno-stack-protector")
    subprocess.run(["gcc", *flags, "-o", str(library), str(source)], check=True, capture_output=True)
    content = library.read_bytes()
    source.unlink()
    library.unlink()
    return content
