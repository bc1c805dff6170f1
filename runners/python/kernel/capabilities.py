"""capabilities(7): the pieces of root's power, all given away for good.

A thread holds five sets. `effective` is what counts now, `permitted` what it may take up, `inheritable` and `ambient`
what survives an execve, and `bounding` what an execve could at most bring back. Emptying all five, with the rules that
give root its powers switched off (securebits) and no_new_privs set, leaves no way up.

The bounding set and the securebits can only be touched with CAP_SETPCAP. Real root has it, and so has the first process
of a new user namespace; a plain user has not, and keeps a full bounding set that no_new_privs makes worthless. The
rights inside a user namespace are counted apart: who makes a new one starts with all of them again, so a process that
must stay without them needs a filter against that as well.

To be called last of all that needs a right, after the user id is changed.
"""

from __future__ import annotations

import errno
import struct

from kernel import calls, status

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")

_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 23, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39

_NOROOT, _NO_SETUID_FIXUP, _KEEP_CAPS, _NO_CAP_AMBIENT_RAISE = 0x01, 0x04, 0x10, 0x40
_LOCKED = (_NOROOT | _NO_SETUID_FIXUP | _KEEP_CAPS | _NO_CAP_AMBIENT_RAISE) << 1
# Root is a user like others, and all of it, "keep capabilities off" included, can never be changed back.
_SECUREBITS = _NOROOT | _NO_SETUID_FIXUP | _NO_CAP_AMBIENT_RAISE | _LOCKED

_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_VERSION_3 = 0x20080522


def forbid_new_privileges() -> None:
    """Set no_new_privs: from here on no execve gives a right that its caller did not have."""
    calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)


def new_privileges_forbidden() -> bool:
    """Whether no_new_privs is set."""
    return calls.prctl(_PR_GET_NO_NEW_PRIVS) == 1


def drop_all(kernel: calls.Kernel = calls.NOW) -> None:
    """Empty all sets; for a plain user all but the bounding set. What became of it: `read`."""
    for capability in range(_count()):
        kernel.make("prctl", _PR_CAPBSET_DROP, capability, unless=(errno.EPERM,))
    kernel.make("prctl", _PR_SET_SECUREBITS, _SECUREBITS, unless=(errno.EPERM, errno.EINVAL))  # gVisor has none
    # The kernel keeps the ambient set within the two that become empty here.
    head = struct.pack("=Ii", _VERSION_3, 0)
    nothing = bytes(struct.calcsize("=6I"))
    kernel.make("capset", head, nothing)


def keep_across_exec(capability: int) -> None:
    """Have the next program that this process executes hold that one capability."""
    head = struct.pack("=Ii", _VERSION_3, 0)
    held = [0, 0]
    held[capability // 32] = 1 << capability % 32
    one = struct.pack("=6I", held[0], held[0], held[0], held[1], held[1], held[1])
    calls.syscall("capset", head, one)
    calls.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def read() -> dict[str, int]:
    """The five sets as the kernel writes them in /proc, one bit for each capability."""
    return {name: int(value, 16) for name, value in status.fields(*SETS).items()}


def _count() -> int:
    """How many capabilities this kernel knows."""
    count = 0
    while calls.libc.prctl(_PR_CAPBSET_READ, count) >= 0:
        count += 1
    return count
