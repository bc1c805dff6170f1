"""fork(2) with new namespaces: one raw clone(2) in place of unshare and a second fork.

``clone(CLONE_NEWUSER | CLONE_NEWPID | … | SIGCHLD)`` makes the child the first process of all its namespaces at once;
the user namespace is made first, so no privilege is needed for the others. Doing it below libc leaves two things to us:

* Python's own bookkeeping around a fork (import lock, thread state), which the C API exports;
* libc's note of the thread id, which the kernel rewrites for us (CLONE_CHILD_SETTID) once we know where libc keeps it:
  that is the very address libc gave to the kernel, and PR_GET_TID_ADDRESS gives it back.

What the kernel is given is the same for all forks of a process into namespaces of the same kinds, so whoever forks
often has it written down once: what is done around a fork is done by the one that waits for it, and each page of memory
that it touches is copied.

Only a process with a single thread may call this. Where PR_GET_TID_ADDRESS is not built into the kernel the note stays
stale in the child, which only libraries with process-shared robust mutexes could notice.
"""

from __future__ import annotations

import ctypes
import os

from kernel import calls
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FLAGS = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
_SETTID, _CLEARTID = 0x01000000, 0x00200000
_PR_GET_TID_ADDRESS = 40
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_in_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_in_child = ctypes.pythonapi.PyOS_AfterFork_Child


def fork(namespaces: Sequence[str]) -> int:
    """Fork into new namespaces of the kinds named; 0 in the child. Raises OSError when the kernel refuses."""
    return fork_as_written(written(namespaces)) if namespaces else os.fork()


def written(namespaces: Sequence[str]) -> tuple[int, ...]:
    """What the kernel is given for a fork of this process into new namespaces of the kinds named."""
    flags = int(signal.SIGCHLD)
    for kind in namespaces:
        flags |= FLAGS[kind]
    address = _thread_id_address()
    if address:
        flags |= _SETTID | _CLEARTID
    return calls.written("clone", flags, 0, 0, *_tail(address))[0]


def fork_as_written(numbers: tuple[int, ...]) -> int:
    """The same fork as `fork` makes."""
    _before_fork()
    pid: int = calls.raw(*numbers)
    if pid == 0:
        _after_fork_in_child()
        return 0
    _after_fork_in_parent()
    return calls.check(pid, "clone")


def refused(namespaces: Sequence[str]) -> dict[str, str]:
    """Which of the namespaces the kernel does not give us, each with its reason; tried in children that do nothing."""
    reasons: dict[str, str] = {}
    granted: list[str] = []
    for kind in namespaces:
        try:
            pid = fork([*granted, kind])
        except OSError as error:
            reasons[kind] = error.strerror or str(error)
            continue
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        granted.append(kind)
    return reasons


def enter_user_namespace() -> None:
    """Move this process into a user namespace of its own, as the same user; there it has all rights."""
    ids = (os.geteuid(), os.getegid())
    calls.syscall("unshare", FLAGS["user"])
    write_maps(ids, ids)


def write_maps(inside: Sequence[int], outside: Sequence[int], kernel: calls.Kernel = calls.NOW) -> None:
    """Map the one user and group of this new user namespace: `inside` here is `outside` in the parent."""
    kernel.write_file("/proc/self/setgroups", "deny")
    kernel.write_file("/proc/self/uid_map", "%d %d 1" % (inside[0], outside[0]))
    kernel.write_file("/proc/self/gid_map", "%d %d 1" % (inside[1], outside[1]))


def _thread_id_address() -> int:
    address = ctypes.c_void_p()
    try:
        calls.prctl(_PR_GET_TID_ADDRESS, ctypes.addressof(address))
    except OSError:
        return 0
    return address.value or 0


def _tail(address: int) -> tuple[int, int]:
    """The arguments after the parent's thread id: aarch64 takes the thread pointer before the child's thread id."""
    return (0, address) if os.uname().machine == "aarch64" else (address, 0)
