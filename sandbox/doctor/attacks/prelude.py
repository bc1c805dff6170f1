"""What the programs of attacks begin with: trying something, and telling how the kernel answered."""

from __future__ import annotations

from typing import Final

TRYING: Final = """
import ctypes, errno, os, signal, socket, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
answers = {}

def answer_to(act, *arguments) -> str:
    try:
        act(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except (ValueError, OverflowError) as error:
        return type(error).__name__
    return "done"

def attempt(what, act, *arguments) -> str:
    answers[what] = answer_to(act, *arguments)
    return answers[what]

def attempt_apart(what, act, *arguments) -> str:
    # in a process of its own, for what may be answered with a signal
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, answer_to(act, *arguments).encode())
        os._exit(0)
    os.close(write)
    status = os.waitpid(child, 0)[1]
    said = os.read(read, 100).decode()
    os.close(read)
    killed = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
    answers[what] = killed or said or "nothing"
    return answers[what]

def failed(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def system_call(number, *arguments) -> None:
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    failed(libc.syscall(ctypes.c_long(number), *wide))

def open_only(path, flags) -> None:
    # nothing is read or written: it is enough to be let in
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))

def must(answer) -> None:
    # what any program may do; without it an attack tells nothing
    what = next(reversed(answers))
    if answers.pop(what) != "done":
        raise AssertionError(what + ", which every tool may, was answered " + answer)

def report(refusals=None) -> dict:
    # of the kernel's answers only refusals are harmless: a complaint about the arguments was let through
    def is_gain(answer):
        return answer == "done" if refusals is None else answer not in refusals
    gained = [what + (": " + said if said != "done" else "") for what, said in answers.items() if is_gain(said)]
    return {"tried": len(answers), "gained": gained}

REFUSALS = ("SIGSYS", "EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT")
"""
"""`attempt(what, act, *arguments)` notes an answer, `report()` says what was gained: whatever was done, or, given
`REFUSALS`, whatever was answered with anything else."""
