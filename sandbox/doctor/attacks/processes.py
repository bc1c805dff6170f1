"""Attacks on processes: those that watch over the call, its neighbours, the host's; and on what limits its own.

Signals are sent only where the tool sees that its processes are not the host's, which is itself a finding.

Under gVisor nothing keeps a tool from the descriptors of its runner, and what it says there, frame by frame, may be
heard as the runner's. That is its own word in another place: what it prints and returns it could print and return
anyway, in a box that is gone with its call. What must hold is that nobody else's call is touched, that no wall is
believed to be missing, and that what was measured outside stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sandbox.doctor.attacks.attack import Attack, Verdict, ending_of, nothing_gained
from sandbox.doctor.attacks.prelude import TRYING
from sandbox.outcome import Outcome, Status

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
"""What the forger computes, before it claims that it took nothing. It is not told by a clock: a kernel inside a box
counts for its processes what the host gave to others."""
_LEAST_S: Final = 0.03
"""No processor takes so many steps of Python in less."""
_OTHERS: Final = """
def theirs(outside) -> list:
    # the descriptors of whoever else is here, unless that is the host
    if os.readlink("/proc/self/ns/pid") in (outside, "pid:[4026531836]"):
        return []
    return [name for name in os.listdir("/proc") if name.isdigit() and name != os.readlink("/proc/self")]

def after(outside: str) -> str:
    return "the next call"
"""
_FORGE: Final = f"""{TRYING}{_OTHERS}
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
_SPEAK: Final = f"""{TRYING}{_OTHERS}
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
    """How its own call ended is the attacker's affair."""
    if outcomes[-1].status is Status.OK:
        return nothing_gained(outcomes) if _has_gained(outcomes[-1]) else Verdict(held=True, how="it reached nobody")
    return Verdict(held=True, how=f"it reached only its own call: {ending_of(outcomes[-1])}")


def _has_gained(outcome: Outcome) -> bool:
    return not isinstance(outcome.value, dict) or bool(outcome.value.get("gained"))


def _is_not_believed(outcomes: Sequence[Outcome]) -> Verdict:
    *attackers, victim = outcomes
    if (victim.status, victim.value) != (Status.OK, "the next call"):
        return Verdict(held=False, how=f"the next call was answered by a forgery: {ending_of(victim)}")
    for attacker in attackers:
        spent = attacker.usage.cpu_s
        if spent is not None and spent < _LEAST_S:
            return Verdict(held=False, how=f"of the processor time of {_STEPS} steps, {spent:.3f} s were counted")
        if attacker.status is Status.MEMORY:
            return Verdict(held=False, how=f"it was believed that it needed much memory: {ending_of(attacker)}")
    return Verdict(held=True, how="what was measured outside stood, and the next call spoke for itself")


PROCESSES: Final = (
    Attack(
        "signals",
        "kill and stop its watchers, its neighbours, the engine and everybody else, one by one and by kill -1",
        _KILL,
        _keeps_to_itself,
        facts=("bystander", "outside"),
        limits={"wall": 5},
        has_neighbour=True,
        may_lose_box=True,
    ),
    Attack(
        "its own limits",
        "raise its limits and its priority, and die last when memory runs out",
        _RAISE,
        nothing_gained,
        facts=("oom_score",),
        in_a_machine="only as its own kernel counts",
    ),
    Attack(
        "forged frames",
        "write results and measurements of its own invention to every descriptor, its own and others'",
        _FORGE,
        _is_not_believed,
        facts=("outside",),
        entries=("attack", "after"),
        limits={"wall": 10},
        may_lose_box=True,
    ),
    Attack(
        "its runner's words",
        "say, well-formed and where its runner does, that it ended, that a wall failed, what it returned and printed",
        _SPEAK,
        _is_not_believed,
        facts=("outside",),
        entries=("end", "fault", "reply", "output", "after"),
        limits={"wall": 10},
        may_lose_box=True,
    ),
)
