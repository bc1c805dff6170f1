"""Namespaces: a fork into new ones by one raw clone(2), in place of unshare and a second fork.

``clone(CLONE_NEWUSER | CLONE_NEWPID | … | SIGCHLD)`` makes the child the first process of all its namespaces at once.
The kernel makes the user namespace first, so the others need no privilege. A clone below libc leaves two tasks to us:

* Python's own bookkeeping around a fork (import lock, thread state), which the C API exports;
* libc's note of the thread id, which the kernel rewrites (CLONE_CHILD_SETTID) once its address is known: libc itself
  gave that address to the kernel, and PR_GET_TID_ADDRESS returns it.

The arguments of the clone are the same for all forks of a process into namespaces of the same kinds. So a process that
forks often prepares them once: a call waits for the work around its fork, and each page that this work touches is
copied.

Only a process with a single thread may fork like this. Where the kernel lacks PR_GET_TID_ADDRESS, the note stays stale
in the child, which only libraries with process-shared robust mutexes could notice.
"""

from __future__ import annotations

import ctypes
import os
import struct

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
_INET, _DATAGRAMS = 2, 2
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x1 | 0x40
_SWITCH_ON = struct.pack("=16sH22x", b"lo", _IFF_UP_RUNNING)
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_in_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_in_child = ctypes.pythonapi.PyOS_AfterFork_Child


def fork(namespaces: Sequence[str]) -> int:
    """Fork into new namespaces of these kinds; return 0 in the child. Raise OSError when the kernel refuses."""
    return fork_prepared(prepare_fork(namespaces)) if namespaces else os.fork()


def prepare_fork(namespaces: Sequence[str]) -> tuple[int, ...]:
    """Return the arguments of a clone of this process into new namespaces of these kinds."""
    flags = int(signal.SIGCHLD)
    for kind in namespaces:
        flags |= FLAGS[kind]
    address = _thread_id_address()
    if address:
        flags |= _SETTID | _CLEARTID
    return calls.encode("clone", flags, 0, 0, *_tail(address))[0]


def fork_prepared(numbers: tuple[int, ...]) -> int:
    """Fork as `fork` does, with prepared arguments."""
    _before_fork()
    pid: int = calls.raw(*numbers)
    if pid == 0:
        _after_fork_in_child()
        return 0
    _after_fork_in_parent()
    return calls.check(pid, "clone")


def find_refused(namespaces: Sequence[str]) -> dict[str, str]:
    """Return the namespaces that the kernel refuses, each with its reason; children that do nothing try them."""
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
    """Move this process into a new user namespace, as the same user; there it has all rights."""
    ids = (os.geteuid(), os.getegid())
    calls.syscall("unshare", FLAGS["user"])
    write_maps(ids, ids)


def write_maps(inside: Sequence[int], outside: Sequence[int], kernel: calls.Kernel = calls.NOW) -> None:
    """Map the one user and group of this new user namespace: `inside` is `outside` in the parent namespace."""
    kernel.write_file("/proc/self/setgroups", "deny")
    kernel.write_file("/proc/self/uid_map", "%d %d 1" % (inside[0], outside[0]))
    kernel.write_file("/proc/self/gid_map", "%d %d 1" % (inside[1], outside[1]))


def raise_loopback(kernel: calls.Kernel = calls.NOW) -> None:
    """Switch on `lo`, which is off in a new network namespace, so that 127.0.0.1 serves this namespace alone."""
    probe = kernel.open("socket", _INET, _DATAGRAMS | os.O_CLOEXEC, 0)
    kernel.make("ioctl", probe, _SIOCSIFFLAGS, _SWITCH_ON)
    kernel.close(probe)


def _thread_id_address() -> int:
    address = ctypes.c_void_p()
    try:
        calls.prctl(_PR_GET_TID_ADDRESS, ctypes.addressof(address))
    except OSError:
        return 0
    return address.value or 0


def _tail(address: int) -> tuple[int, int]:
    """Return the arguments after the parent's thread id: aarch64 takes the thread pointer before the child's id."""
    return (0, address) if os.uname().machine == "aarch64" else (address, 0)
