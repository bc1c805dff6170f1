"""Attacks: programs that try to break out of a box, with a judge of each.

A program is a tool that tries every known way, and reports its gains. The judge believes the report only about facts
that no process outside can see, such as the kernel's answers. Everything visible from outside is checked there: the end
of the call and its limit, its measured usage, the listeners on the host that heard something, and whether the box
serves the next call (see `stage` and `campaign`).

A program that breaks by itself proves nothing, and does not count as held. So each program also does something harmless
of the same kind, and fails if that does not work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sandbox.outcome import Isolation, Outcome, Status
from sandbox.policy import NetworkMode, Policy

ANSWERS: Final = """
import ctypes, errno, os, signal, socket, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def answer_to(act, *arguments) -> str:
    try:
        act(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except (ValueError, OverflowError) as error:
        return type(error).__name__
    return "done"

def answer_apart(act, *arguments) -> str:
    # in a process of its own, for calls that the kernel may answer with a signal
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, answer_to(act, *arguments).encode())
        os._exit(0)
    os.close(write)
    status = os.waitpid(child, 0)[1]
    said = os.read(read, 100).decode()
    os.close(read)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else said or "nothing"

def failed(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def system_call(number, *arguments) -> int:
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    failed(result)
    return result
"""
"""Functions that return the kernel's answer to an attempt: `done`, or the name of an error or a signal."""

TRYING: Final = f"""{ANSWERS}
answers = {{}}

def attempt(what, act, *arguments) -> str:
    answers[what] = answer_to(act, *arguments)
    return answers[what]

def attempt_apart(what, act, *arguments) -> str:
    answers[what] = answer_apart(act, *arguments)
    return answers[what]

def open_only(path, flags) -> None:
    # nothing is read or written: it is enough to be let in
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))

def must(answer) -> None:
    # an act that any program may do; without it an attack proves nothing
    what = next(reversed(answers))
    if answers.pop(what) != "done":
        raise AssertionError(what + ", which every tool may, was answered " + answer)

def report(refusals=None) -> dict:
    # of the kernel's answers only refusals are harmless: a complaint about the arguments was let through
    def is_gain(answer):
        return answer == "done" if refusals is None else answer not in refusals
    gained = [what + (": " + said if said != "done" else "") for what, said in answers.items() if is_gain(said)]
    return {{"tried": len(answers), "gained": gained}}

REFUSALS = ("SIGSYS", "EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT")
"""
"""The start of most programs.

`attempt(what, act, *arguments)` notes the kernel's answer. `report()` returns the gains: every attempt that was done,
or, with `REFUSALS`, every attempt with another answer than a refusal.
"""

_MAX_NAMED: Final = 6


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the isolation held, with the evidence."""

    held: bool
    how: str


Judge: TypeAlias = Callable[[Sequence[Outcome]], Verdict]
"""A judge gets the outcomes of a program's calls, in the order of its `entries`."""


def nothing_gained(outcomes: Sequence[Outcome]) -> Verdict:
    """Judge the report of the last call, as `report` of `TRYING` returns it."""
    outcome = outcomes[-1]
    found: Any = outcome.value
    if outcome.status is not Status.OK or not isinstance(found, dict) or not found.get("tried"):
        return Verdict(held=False, how=f"inconclusive: {ending_of(outcome)}")
    if found["gained"]:
        return Verdict(held=False, how=f"it got through: {_listed(found['gained'])}")
    return Verdict(held=True, how=_refused(found["tried"]))


def ends_at(*limits: str) -> Judge:
    """Return a judge: one of these limits ended the call, on the evidence of the counters."""

    def judge(outcomes: Sequence[Outcome]) -> Verdict:
        outcome = outcomes[-1]
        held = outcome.limit_name in limits and outcome.status in (Status.LIMIT, Status.MEMORY, Status.TIMEOUT)
        return Verdict(held=held, how=ending_of(outcome))

    return judge


def ending_of(outcome: Outcome) -> str:
    """Return the end of a call in a few words."""
    if outcome.status in (Status.LIMIT, Status.MEMORY, Status.TIMEOUT):
        return f"ended at its limit '{outcome.limit_name}'"
    if outcome.error is not None:
        return f"{outcome.status.value}: {outcome.error.type}: {outcome.error.message[:200]}"
    return f"it ended with status '{outcome.status.value}'"


@dataclass(frozen=True, slots=True)
class Program:
    """A program of an attack, and its judge."""

    name: str
    source: str
    judge: Judge = nothing_gained
    facts: tuple[str, ...] = ()
    """The facts of the stage that its functions take as arguments."""
    shows: tuple[str, ...] = ()
    """The facts that are folders of the host, which the policy shows for this program."""
    entries: tuple[str, ...] = ("attack",)
    """The functions to call one after the other, in one box if the policy allows reuse."""
    limits: Mapping[str, float] = field(default_factory=dict)
    has_neighbour: bool = False
    """Whether another call runs at the same time, which must not be harmed."""
    may_lose_box: bool = False
    """Whether its own box may end with the call; the next call shows whether that harmed another one."""
    requires: tuple[str, ...] = ()
    """Wheels that the stage makes."""
    starts_with_python: bool = False
    """Whether its package runs by a `.pth` file, and not by an import of the tool."""
    in_a_machine: str = ""
    """The reason why a gain inside a box with a kernel of its own, and one call only, harms no other call."""


def _always(_: Policy) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Attack:
    """Programs that attack one thing, a row of the report; `is_asked` is False for a policy that permits the attack."""

    name: str
    tries: str
    programs: tuple[Program, ...]
    is_asked: Callable[[Policy], bool] = _always


def unless_network_is_open(policy: Policy) -> bool:
    """Return whether the policy does not permit attacks on the host's own network."""
    return policy.network.mode is not NetworkMode.HOST


def judge(program: Program, outcomes: Sequence[Outcome]) -> Verdict:
    """Return the verdict of the program's judge, for the isolation that the calls had."""
    verdict, receipt = program.judge(outcomes), outcomes[-1].receipt
    is_machine = receipt is not None and receipt.isolation is Isolation.MACHINE
    if verdict.held or not is_machine or not program.in_a_machine:
        return verdict
    return Verdict(held=True, how=f"{program.in_a_machine} ({verdict.how})")


def _refused(tried: int) -> str:
    return "refused" if tried == 1 else f"refused, all {tried} ways"


def _listed(names: Sequence[object]) -> str:
    rest = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(str(name) for name in names[:_MAX_NAMED]) + rest
