"""The doorway to the kernel: libc by ctypes, errors as OSError, numbers for what libc does not wrap.

libc is opened as `PyDLL`, which keeps the interpreter's lock during a call. That is on purpose: the runner has one
thread, every call here is short, and between `clone` and the first Python instruction of the child there must be no
moment in which the lock is somebody else's.

`syscall(2)` is variadic. ctypes would pass a plain int as a 32-bit C int and leave the upper half of the register to
chance, so every int is widened to a C long first. Bytes, buffers, `byref(...)` and None (NULL) pass as they are.

The numbers are those of the two machines a box runs on. A machine that is not listed has no numbers: `number_of` then
answers what a kernel without the call would, ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

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
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}

NUMBERS = {
    "x86_64": dict(
        _EVERYWHERE, clone=56, capget=125, capset=126, pivot_root=155, gettid=186, unshare=272, setns=308, seccomp=317
    ),
    "aarch64": dict(
        _EVERYWHERE, pivot_root=41, capget=90, capset=91, unshare=97, gettid=178, clone=220, setns=268, seccomp=277
    ),
}


def number_of(name: str) -> int:
    """The number of a system call on this machine; OSError(ENOSYS) where it is not known."""
    number = NUMBERS.get(os.uname().machine, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: no number for it on {os.uname().machine}")
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


def prctl(option: int, *arguments: Any) -> int:
    """prctl(2) with the arguments that are not given as zeros (some options insist); raises OSError."""
    values = [_wide(argument) for argument in arguments] + [ctypes.c_long(0)] * (4 - len(arguments))
    return check(libc.prctl(ctypes.c_int(option), *values), f"prctl {option}")


def _wide(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
