"""capabilities(7): the parts of root's power, all given up for good.

A thread holds five sets. `effective` counts now, `permitted` is the most it may take up, `inheritable` and `ambient`
survive an execve, and `bounding` is the most that an execve could bring back. Empty sets, together with securebits that
switch off root's special rules and with no_new_privs, leave no way to regain a capability.

Only CAP_SETPCAP allows changes of the bounding set and the securebits. Real root has that capability, and so has the
first process of a new user namespace. A plain user has not, and keeps a full bounding set that no_new_privs makes
worthless. The rights inside a user namespace are counted separately: the creator of a new one starts with all of them,
so a process that must stay without them needs a filter against that as well.

`drop_all` comes after every operation that needs a right, and after the change of the user id.
"""

from __future__ import annotations

import errno
import struct

from kernel import calls

_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 23, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39

_NOROOT, _NO_SETUID_FIXUP, _KEEP_CAPS, _NO_CAP_AMBIENT_RAISE = 0x01, 0x04, 0x10, 0x40
_LOCKED = (_NOROOT | _NO_SETUID_FIXUP | _KEEP_CAPS | _NO_CAP_AMBIENT_RAISE) << 1
# Root becomes a user like others, and the lock bits (keep_caps included) make that permanent.
_SECUREBITS = _NOROOT | _NO_SETUID_FIXUP | _NO_CAP_AMBIENT_RAISE | _LOCKED

_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_VERSION_3 = 0x20080522


def forbid_new_privileges() -> None:
    """Set no_new_privs: from now on no execve gives a right that its caller did not have."""
    calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)


def new_privileges_forbidden() -> bool:
    """Whether no_new_privs is set."""
    return calls.prctl(_PR_GET_NO_NEW_PRIVS) == 1


def drop_all(kernel: calls.Kernel = calls.NOW) -> None:
    """Empty all sets; for a plain user all but the bounding set."""
    for capability in range(_count()):
        kernel.make("prctl", _PR_CAPBSET_DROP, capability, unless=(errno.EPERM,))
    kernel.make("prctl", _PR_SET_SECUREBITS, _SECUREBITS, unless=(errno.EPERM, errno.EINVAL))  # gVisor has none
    # The kernel keeps the ambient set within the permitted and inheritable sets, which become empty here.
    head = struct.pack("=Ii", _VERSION_3, 0)
    nothing = bytes(struct.calcsize("=6I"))
    kernel.make("capset", head, nothing)


def keep_across_exec(capability: int) -> None:
    """Let the next program that this process executes hold that one capability."""
    head = struct.pack("=Ii", _VERSION_3, 0)
    held = [0, 0]
    held[capability // 32] = 1 << capability % 32
    one = struct.pack("=6I", held[0], held[0], held[0], held[1], held[1], held[1])
    calls.syscall("capset", head, one)
    calls.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def _count() -> int:
    """Return how many capabilities this kernel knows."""
    count = 0
    while calls.libc.prctl(_PR_CAPBSET_READ, count) >= 0:
        count += 1
    return count
