"""Attacks on processes: the guards of the call, its neighbours, the host's; and on the call's own limits.

A program sends signals only if it sees that its processes are not the host's; otherwise that is itself a finding.

Under gVisor nothing keeps a tool from the descriptors of its runner, and the engine may take the tool's frames there
for the runner's. The tool gains nothing that it could not print or return, in a box that ends with its call. The
isolation must still hold: no other call is touched, the engine believes no layer to be missing, and the measurements
from outside stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sandbox.doctor.attacks.attack import TRYING, Attack, Program, Verdict, ending_of, nothing_gained
from sandbox.doctor.attacks.rights import MEMORY_OF_OTHERS, ask_kernel
from sandbox.outcome import Outcome, Status

_OTHERS: Final = f"""{TRYING}
FILES = ["environ", "mem", "maps", "auxv", "io", "stack", "syscall", "pagemap", "exe", "cwd", "root"]

def read(path) -> None:
    if os.path.islink(path):
        os.readlink(path)
        return
    with open(path, "rb", buffering=0) as file:
        if path.endswith("/mem"):
            file.seek(0x400000)
        file.read(16)

def read_links(folder) -> None:
    for number in os.listdir(folder):
        os.readlink(folder + "/" + number)

def attack() -> dict:
    must(attempt("its own environment", read, "/proc/self/environ"))
    must(attempt("its own descriptors", os.readlink, "/proc/self/fd/0"))
    own = os.readlink("/proc/self")
    pids = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
    for pid in pids or ["1"]:
        for file in FILES:
            attempt("/proc/" + pid + "/" + file, read, "/proc/" + pid + "/" + file)
        attempt("/proc/" + pid + "/fd", read_links, "/proc/" + pid + "/fd")
    return report()
"""
_CONTROL_GROUPS: Final = f"""{TRYING}
FILES = ["cgroup.procs", "tasks", "release_agent", "notify_on_release", "memory.max", "memory.limit_in_bytes",
         "pids.max", "cpu.max", "cpu.cfs_quota_us", "devices.allow", "cgroup.subtree_control", "cgroup.freeze"]

def folders(root, deepest=3) -> list:
    found = [root]
    try:
        names = os.listdir(root) if deepest else []
    except OSError:
        names = []
    for name in names[:100]:
        if os.path.isdir(root + "/" + name) and not os.path.islink(root + "/" + name):
            found += folders(root + "/" + name, deepest - 1)
    return found

def make_group(folder) -> None:
    os.mkdir(folder)
    os.rmdir(folder)

def attack() -> dict:
    must(attempt("its own", open_only, "/proc/self/cgroup", os.O_RDONLY))
    for folder in folders("/sys/fs/cgroup"):
        for file in FILES:
            attempt(folder + "/" + file, open_only, folder + "/" + file, os.O_WRONLY)
        attempt("a group in " + folder, make_group, folder + "/sandbox-attack")
    return report()
"""
_KILL: Final = f"""{TRYING}
OF_THE_MACHINE = "pid:[4026531836]"

def attack(bystander: int, outside: str) -> dict:
    own = os.readlink("/proc/self/ns/pid") if os.path.exists("/proc/self/ns") else ""
    if own in (outside, OF_THE_MACHINE):
        attempt("the host's processes are its own; no signal was sent", os.kill, bystander, 0)
        return {{"tried": 1, "gained": list(answers)}}
    spared = (os.getpid(), os.getppid())
    for number in range(1, 65):
        for pid in (bystander, *range(2, 100)):
            if pid not in spared:
                answer_to(os.kill, pid, number)
                answer_to(os.killpg, pid, number)
        answer_to(os.kill, -1, number)
        for pid in (os.getppid(), 1):
            answer_to(os.kill, pid, number)
            answer_to(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number))
    return {{"tried": 1, "gained": []}}
"""
_RAISE: Final = f"""{TRYING}
import resource

NAMES = ("NOFILE", "FSIZE", "CPU", "DATA", "NPROC", "CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "SIGPENDING")

def lower_score(outside) -> None:
    path = "/proc/self/oom_score_adj"
    for score in ("-1000", "-1", "0", str(outside - 1)):
        try:
            with open(path, "w") as own:
                own.write(score)
        except OSError:
            continue
    if int(open(path).read()) >= outside:
        raise OSError(errno.EPERM, "as it should be")

def attack(oom_score: int) -> dict:
    for name in NAMES:
        kind = getattr(resource, "RLIMIT_" + name)
        soft, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            attempt("more " + name, resource.setrlimit, kind, (soft, hard + 1))
            attempt("no limit of " + name, resource.prlimit, 0, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    attempt("a better priority", os.nice, -5)
    attempt("real time", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
    attempt("dying after the engine when memory runs out", lower_score, oom_score)
    return report()
"""
_STEPS: Final = 10_000_000
"""The computation of the forger before it claims to have used nothing. A number of steps, not a time, because a kernel
inside a box counts time that the host gave to others."""
_MIN_S: Final = 0.03
"""The least time in which a processor takes that number of Python's steps."""
_SHARED: Final = """
def theirs(outside) -> list:
    # the other processes here, unless they are the host's
    if os.readlink("/proc/self/ns/pid") in (outside, "pid:[4026531836]"):
        return []
    return [name for name in os.listdir("/proc") if name.isdigit() and name != os.readlink("/proc/self")]

def after(outside: str) -> str:
    return "the next call"
"""
_FORGE: Final = f"""{TRYING}{_SHARED}
import json

def forged() -> list:
    reply = json.dumps({{"kind": "value", "value": "forged"}}).encode()
    end = {{"exit_code": 0, "signal": None, "cpu_s": 0.0, "max_rss": 1, "bytes_free": 1, "inodes_free": 1}}
    texts = [len(reply).to_bytes(4, "big") + reply, json.dumps(end).encode(), bytes(64)]
    frames = sys.modules.get("frames")
    for id in range(8) if hasattr(frames, "message") else ():
        texts.append(frames.message("ended", id=id, killed_by=None, **end))
    return texts

def write(number) -> None:
    os.set_blocking(number, False)
    for text in forged():
        os.write(number, text)

def attack(outside: str) -> str:
    for _ in range({_STEPS}):
        pass
    for pid in theirs(outside):
        for number in range(16):
            try:
                write(os.open("/proc/" + pid + "/fd/" + str(number), os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
    for number in range(256):
        answer_to(write, number)
    return "honest"
"""
_SPEAK: Final = f"""{TRYING}{_SHARED}
import json, struct

def message(**fields) -> bytes:
    text = json.dumps(fields).encode()
    return struct.pack(">IB", len(text) + 1, 1) + text

def chunk(stream, data) -> bytes:
    return struct.pack(">IBIB", len(data) + 6, 2, 1, stream) + data

def write(path, said) -> None:
    number = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.write(number, said)
    os.close(number)

def say(outside, said) -> str:
    for _ in range({_STEPS}):
        pass
    for pid in theirs(outside):
        for number in range(64):
            answer_to(write, "/proc/" + pid + "/fd/" + str(number), said)
    return "honest"

def end(outside: str) -> str:
    end = {{"exit_code": None, "signal": 9, "cpu_s": 1e6, "max_rss": 1 << 50, "bytes_free": 0, "inodes_free": 0}}
    return say(outside, message(type="ended", id=1, killed_by="memory", **end))

def fault(outside: str) -> str:
    return say(outside, message(type="fault", layer="seccomp", reason="forged"))

def reply(outside: str) -> str:
    text = json.dumps({{"kind": "value", "value": "forged", "warnings": []}}).encode()
    returned = message(type="returned", id=1, cpu_before=1e6)
    return say(outside, chunk(3, struct.pack(">I", len(text)) + text) + returned)

def output(outside: str) -> str:
    return say(outside, chunk(2, b"forged"))
"""


def _keeps_to_itself(outcomes: Sequence[Outcome]) -> Verdict:
    # The attacker may end its own call in any way.
    if outcomes[-1].status is Status.OK:
        nothing = Verdict(held=True, how="it reached no other process")
        return nothing_gained(outcomes) if _has_gained(outcomes[-1]) else nothing
    return Verdict(held=True, how=f"it reached only its own call: {ending_of(outcomes[-1])}")


def _has_gained(outcome: Outcome) -> bool:
    return not isinstance(outcome.value, dict) or bool(outcome.value.get("gained"))


def _is_not_believed(outcomes: Sequence[Outcome]) -> Verdict:
    *attackers, victim = outcomes
    if (victim.status, victim.value) != (Status.OK, "the next call"):
        return Verdict(held=False, how=f"the next call was answered by a forgery: {ending_of(victim)}")
    for attacker in attackers:
        spent = attacker.usage.cpu_s
        if spent is not None and spent < _MIN_S:
            return Verdict(held=False, how=f"of the processor time of {_STEPS} steps, {spent:.3f} s were counted")
        if attacker.status is Status.MEMORY:
            return Verdict(held=False, how=f"the engine believed that it needed much memory: {ending_of(attacker)}")
    return Verdict(held=True, how="the measurements from outside stood, and the next call spoke for itself")


PROCESSES: Final = (
    Attack(
        "other processes",
        "read, trace, stop and kill its guards, its neighbours, the engine and every other process",
        (
            Program("other processes' secrets", _OTHERS, in_a_machine="only of its own box, which has no other call"),
            ask_kernel("memory of others", MEMORY_OF_OTHERS),
            Program(
                "signals",
                _KILL,
                _keeps_to_itself,
                facts=("bystander", "outside"),
                limits={"wall": 5},
                has_neighbour=True,
                may_lose_box=True,
            ),
        ),
    ),
    Attack(
        "forged results",
        "write results and measurements of its own invention to every descriptor, also as its runner writes them",
        (
            Program(
                "forged frames",
                _FORGE,
                _is_not_believed,
                facts=("outside",),
                entries=("attack", "after"),
                limits={"wall": 10},
                may_lose_box=True,
            ),
            Program(
                "its runner's words",
                _SPEAK,
                _is_not_believed,
                facts=("outside",),
                entries=("end", "fault", "reply", "output", "after"),
                limits={"wall": 10},
                may_lose_box=True,
            ),
        ),
    ),
    Attack(
        "its own limits",
        "raise its limits and its priority, leave its control group, die last when memory runs out",
        (
            Program("its own limits", _RAISE, facts=("oom_score",), in_a_machine="only as its own kernel counts"),
            Program("control groups", _CONTROL_GROUPS),
        ),
    ),
)
