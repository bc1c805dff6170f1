"""The doorway to the kernel: libc by ctypes, errors as OSError, numbers for what libc does not wrap.

libc is opened as `PyDLL`, which keeps the interpreter's lock during a call. That is on purpose: the runner has one
thread, every call here is short, and between `clone` and the first Python instruction of the child there must be no
moment in which the lock is somebody else's.

`syscall(2)` is variadic. ctypes would pass a plain int as a 32-bit C int and leave the upper half of the register to
chance, so every int is widened to a C long first. Bytes, buffers, `byref(...)` and None (NULL) pass as they are.

Most of what puts up walls takes a `Kernel`, the way on which its calls go: `NOW` makes them at once, a script
(script.py) writes them down to be made later.

The numbers are those of the two machines a box runs on. A machine that is not listed has no numbers: `number_of` then
answers what a kernel without the call would, ENOSYS.
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
    """The number of a system call on this machine; OSError(ENOSYS) where it is not known."""
    number = NUMBERS.get(_MACHINE, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: no number for it on {_MACHINE}")
    return number


def check(result: int, what: str) -> int:
    """The result itself, or OSError with the errno of the call that just failed and its name."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(name: str, *arguments: Any) -> int:
    """Call the kernel directly; raises OSError that names the call."""
    result: int = libc.syscall(ctypes.c_long(number_of(name)), *[_wide(argument) for argument in arguments])
    return check(result, name)


def prctl(option: int, *arguments: int) -> int:
    """prctl(2) with the arguments that are not given as zeros (some options insist); raises OSError."""
    result: int = _prctl(option, *arguments, *_ZEROS[len(arguments) :])
    return result if result >= 0 else check(result, f"prctl {option}")


def written(name: str, *arguments: Any) -> tuple[tuple[int, ...], list[Any]]:
    """What `raw` takes for this call, and what has to be kept alive until it is made."""
    numbers, kept = [number_of(name)], []
    for argument in arguments:
        if argument is None or isinstance(argument, int):
            numbers.append(argument or 0)
            continue
        # A buffer of its own, as the kernel wants a string: with a zero at the end.
        content = ctypes.create_string_buffer(argument) if isinstance(argument, bytes) else argument
        kept.append(content)
        numbers.append(ctypes.addressof(content))
    return (*numbers, *[0] * (7 - len(numbers))), kept


class Kernel:
    """Where system calls go; this one makes them at once. Arguments are ints, bytes, ctypes structures or None."""

    wall = ""  # what the calls that follow are for

    def make(
        self, name: str, *arguments: Any, about: str = "", gives: int | None = 0, unless: Container[int] = ()
    ) -> None:
        """This call. OSError, which names it and what it is about, when it gives anything else than it should; None is
        for whatever is no error. `unless` it fails with one of these errors: then it does not matter."""
        numbers, kept = written(name, *arguments)
        judge(label(name, about), raw(*numbers), gives, unless)
        del kept  # the kernel has read it

    def open(self, name: str, *arguments: Any, about: str = "", unless: Container[int] = ()) -> int:
        """The descriptor that this call gives."""
        numbers, kept = written(name, *arguments)
        descriptor: int = raw(*numbers)
        judge(label(name, about), descriptor, None, unless)
        del kept
        return descriptor

    def close(self, descriptor: int, *, unless: Container[int] = ()) -> None:
        """Let go of what `open` gave."""
        self.make("close", descriptor, unless=unless)

    def write_file(self, path: str, text: str, *, unless: Container[int] = ()) -> None:
        """Write to a file that is there, in one piece, as the kernel wants it for its own."""
        data, flags = text.encode("ascii"), os.O_WRONLY | os.O_CLOEXEC
        file = self.open("openat", AT_FDCWD, path.encode(), flags, about=path, unless=unless)
        self.make("write", file, data, len(data), about=path, gives=len(data), unless=unless)
        self.close(file, unless=unless)


NOW = Kernel()


def judge(what: str, result: int, gives: int | None, unless: Container[int]) -> None:
    """OSError for a result that should not be; to be called before anything else fails."""
    if result == gives or (gives is None and result >= 0):
        return
    number = ctypes.get_errno() if result < 0 else errno.EINVAL
    if number not in unless:
        raise OSError(number, f"{what}: {os.strerror(number)}")


def label(name: str, about: str) -> str:
    """A call in an error: its name, and the path that it is about."""
    return name + " " + about if about else name


def _wide(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
