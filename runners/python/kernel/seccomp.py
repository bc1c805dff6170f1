"""seccomp(2): a filter over the system calls this process may still make.

The contract, from the man page:

* The filter is a classic BPF program (struct sock_fprog). It was compiled on the host; here it is bytes.
* no_new_privs must be set first (`capabilities.forbid_new_privileges`), or the kernel refuses with EACCES.
* It binds this thread and everything it forks or executes from now on, and nothing takes it off again. A further filter
  can only add: for each call the hardest answer of all filters counts.
* Other threads stay free. The runner has none.
"""

from __future__ import annotations

import ctypes
import errno

from kernel import calls, status

DISABLED, STRICT, FILTERED = 0, 1, 2

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_INSTRUCTION_BYTES = 8


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def install(program: bytes, kernel: calls.Kernel = calls.NOW) -> None:
    """Put the filter in force for good; OSError when the kernel refuses the program or no_new_privs is not set."""
    count, rest = divmod(len(program), _INSTRUCTION_BYTES)
    if rest or not 0 < count <= 0xFFFF:
        raise OSError(errno.EINVAL, "seccomp: %d bytes are not a filter" % len(program))
    filter_program = _Program(count, program)
    kernel.make("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_program)


def mode() -> int:
    """DISABLED, STRICT or FILTERED, as the kernel says."""
    return int(status.fields("Seccomp").get("Seccomp", DISABLED))


def filters() -> int:
    """How many filters are in force; 0 also where the kernel (before 5.9) does not count them."""
    return int(status.fields("Seccomp_filters").get("Seccomp_filters", 0))
