"""seccomp(2): a filter over the system calls that this process may still make.

The contract, from the man page:

* The filter is a classic BPF program (struct sock_fprog). The host compiled it; here it is bytes.
* no_new_privs must be set first (`capabilities.forbid_new_privileges`), or the kernel refuses with EACCES.
* A filter binds this thread and all its later forks and programs, and is never removed. A further filter can only add:
  for each call the strictest answer of all filters counts.
* Other threads stay free. The runner has only one thread.
"""

from __future__ import annotations

import ctypes
import errno

from kernel import calls

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_INSTRUCTION_BYTES = 8


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def install(program: bytes, kernel: calls.Kernel = calls.NOW) -> None:
    """Install a filter for good; raise OSError when the kernel refuses the program or no_new_privs is not set."""
    count, rest = divmod(len(program), _INSTRUCTION_BYTES)
    if rest or not 0 < count <= 0xFFFF:
        raise OSError(errno.EINVAL, "seccomp: %d bytes are not a filter" % len(program))
    filter_program = _Program(count, program)
    kernel.make("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_program)
