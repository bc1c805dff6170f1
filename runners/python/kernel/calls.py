"""System calls: libc by ctypes, errors as OSError, numbers for the calls that libc does not wrap.

libc is opened as `PyDLL`, which keeps the interpreter's lock during a call. That is on purpose: the runner has one
thread, every call here is short, and between `clone` and the first Python instruction of the child no other thread may
ever hold the lock.

`syscall(2)` is variadic. ctypes would pass a plain int as a 32-bit C int and leave the upper half of the register to
chance, so every int is widened to a C long first. Bytes, buffers, `byref(...)` and None (NULL) pass as they are.

Functions that set up isolation take a `Kernel`, the destination of their calls. `NOW` makes the calls at once. A
`CallScript` records them, to be made in a row by every child: a child pays for each page that it is the first to write
to after the fork, and Python writes nearly wherever it reads (reference counts, caches in its own code). Working out
the calls of one layer of isolation touches hundreds of pages, though all of them are the same for every call of a box.
So the parent works them out, down to the numbers and the memory that the kernel is given, and the child runs one loop.

A script predicts the numbers of descriptors: the kernel gives the lowest free number, and the first free one is known.
A call that returns another number, like any call that fails, ends the run.

The numbers of system calls are those of the two machines a box runs on. On other machines `number_of` raises the error
of a kernel without the call, ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

AT_FDCWD = -100
ANY_ERROR = range(1, 4096)
_ZEROS = (0,) * 4

libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
raw = libc["syscall"]
raw.restype = ctypes.c_long
raw.argtypes = (ctypes.c_long,) * 7
_prctl = libc["prctl"]
_prctl.argtypes = (ctypes.c_int, *(ctypes.c_long,) * 4)

_EVERYWHERE = {
    "pidfd_send_signal": 424,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "pidfd_open": 434,
    "clone3": 435,
    "close_range": 436,
    "openat2": 437,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}

NUMBERS = {
    "x86_64": dict(
        _EVERYWHERE,
        write=1,
        close=3,
        ioctl=16,
        socket=41,
        clone=56,
        chdir=80,
        umask=95,
        capget=125,
        capset=126,
        pivot_root=155,
        prctl=157,
        mount=165,
        sethostname=170,
        gettid=186,
        sched_setaffinity=203,
        openat=257,
        dup3=292,
        mkdirat=258,
        unshare=272,
        prlimit64=302,
        setns=308,
        seccomp=317,
    ),
    "aarch64": dict(
        _EVERYWHERE,
        dup3=24,
        ioctl=29,
        mkdirat=34,
        mount=40,
        pivot_root=41,
        chdir=49,
        openat=56,
        close=57,
        write=64,
        capget=90,
        capset=91,
        unshare=97,
        sched_setaffinity=122,
        sethostname=161,
        umask=166,
        prctl=167,
        gettid=178,
        socket=198,
        clone=220,
        prlimit64=261,
        setns=268,
        seccomp=277,
    ),
}
_MACHINE = os.uname().machine


def number_of(name: str) -> int:
    """Return the number of a system call on this machine; raise OSError(ENOSYS) if there is no such number."""
    number = NUMBERS.get(_MACHINE, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: no number for it on {_MACHINE}")
    return number


def check(result: int, what: str) -> int:
    """Return the result, or raise OSError with the errno of the call that just failed, and its name."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(name: str, *arguments: Any) -> int:
    """Call the kernel directly; raise an OSError that names the call."""
    result: int = libc.syscall(ctypes.c_long(number_of(name)), *[_wide(argument) for argument in arguments])
    return check(result, name)


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2) with zeros for the missing arguments, which some options require; raise OSError."""
    result: int = _prctl(option, *arguments, *_ZEROS[len(arguments) :])
    return result if result >= 0 else check(result, f"prctl {option}")


def encode(name: str, *arguments: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the arguments of `raw` for this call, and the buffers that must stay alive until the call is made."""
    numbers, kept = [number_of(name)], []
    for argument in arguments:
        if argument is None or isinstance(argument, int):
            numbers.append(argument or 0)
            continue
        # A separate buffer, because the kernel wants a zero at the end of a string.
        content = ctypes.create_string_buffer(argument) if isinstance(argument, bytes) else argument
        kept.append(content)
        numbers.append(ctypes.addressof(content))
    return (*numbers, *[0] * (7 - len(numbers))), kept


class Kernel:
    """The destination of system calls; this one makes them at once.

    Arguments are ints, bytes, ctypes structures or None. `layer` names the part of the isolation that the next calls
    belong to.
    """

    layer = ""

    def make(
        self, name: str, *arguments: Any, about: str = "", gives: int | None = 0, unless: Container[int] = ()
    ) -> None:
        """Make a call that must return `gives`, or anything but an error for None.

        Otherwise raise an OSError that names the call and its subject, unless the error is one of `unless`.
        """
        numbers, kept = encode(name, *arguments)
        judge(label(name, about), raw(*numbers), gives, unless)
        del kept  # the kernel has read it

    def open(self, name: str, *arguments: Any, about: str = "", unless: Container[int] = ()) -> int:
        """Make a call that returns a descriptor, and return the descriptor."""
        numbers, kept = encode(name, *arguments)
        descriptor: int = raw(*numbers)
        judge(label(name, about), descriptor, None, unless)
        del kept
        return descriptor

    def close(self, descriptor: int, *, unless: Container[int] = ()) -> None:
        """Close a descriptor that `open` returned."""
        self.make("close", descriptor, unless=unless)

    def write_file(self, path: str, text: str, *, unless: Container[int] = ()) -> None:
        """Write to an existing file in one piece, as the kernel requires for files of /proc."""
        data, flags = text.encode("ascii"), os.O_WRONLY | os.O_CLOEXEC
        file = self.open("openat", AT_FDCWD, path.encode(), flags, about=path, unless=unless)
        self.make("write", file, data, len(data), about=path, gives=len(data), unless=unless)
        self.close(file, unless=unless)


NOW = Kernel()


def judge(what: str, result: int, gives: int | None, unless: Container[int]) -> None:
    """Raise OSError for a wrong result; must be called before another call can change errno."""
    if result == gives or (gives is None and result >= 0):
        return
    number = ctypes.get_errno() if result < 0 else errno.EINVAL
    if number not in unless:
        raise OSError(number, f"{what}: {os.strerror(number)}")


def label(name: str, about: str) -> str:
    """Return the text for a call in an error: its name, and the path that it concerns."""
    return name + " " + about if about else name


def _wide(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


class CallScript(Kernel):
    """Recorded calls. The process that runs them must have no descriptor open from `first_free` on."""

    def __init__(self, *, first_free: int) -> None:
        self._first_free = first_free
        self._open: set[int] = set()
        self._steps: list[tuple[tuple[int, ...], int | None]] = []
        self._notes: list[tuple[str, str, Container[int]]] = []
        self._kept: list[Any] = []

    def make(
        self, name: str, *arguments: Any, about: str = "", gives: int | None = 0, unless: Container[int] = ()
    ) -> None:
        """Record a call, with the result that it must return."""
        numbers, kept = encode(name, *arguments)
        self._steps.append((numbers, gives))
        self._notes.append((self.layer, label(name, about), unless))
        self._kept += kept

    def open(self, name: str, *arguments: Any, about: str = "", unless: Container[int] = ()) -> int:
        """Record a call that returns a descriptor, and return the number that the descriptor will have."""
        predicted = next(number for number in range(self._first_free, 1 << 10) if number not in self._open)
        self.make(name, *arguments, about=about, gives=predicted, unless=unless)
        self._open.add(predicted)
        return predicted

    def close(self, descriptor: int, *, unless: Container[int] = ()) -> None:
        """Record that a descriptor is closed, so that its number is free again."""
        super().close(descriptor, unless=unless)
        self._open.discard(descriptor)

    def run(self) -> None:
        """Make the calls; raise OSError for a call with a wrong result, after setting `layer` to the layer of that."""
        make = raw
        for step, (numbers, gives) in enumerate(self._steps):
            result = make(*numbers)
            if result != gives:
                self.layer, what, unless = self._notes[step]
                judge(what, result, gives, unless)
