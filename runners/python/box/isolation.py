"""What processes of a box ask of the kernel beside the walls of a call (box/call_isolation.py).

All of it is for Linux, and `IS_LINUX` is the one place that asks.
"""

from __future__ import annotations

import errno
import os
import sys

from box import frames

IS_LINUX = sys.platform == "linux"
if IS_LINUX:
    from kernel import calls, clone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
SHORTAGES_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, *SHORTAGES_OF_DESCRIPTORS)
"""What fails with one of these may succeed when something else has ended."""

NO_DESCRIPTOR = 0xFFFFFFFF


class WallFault(Exception):
    """A wall could not be put up; `layer` names it."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(layer, reason)
        self.layer = layer
        self.reason = reason


def write_down_fork(plan: dict[str, Any]) -> None:
    """Work out for the plan what is the same for all forks into its namespaces."""
    if plan["namespaces"]:
        plan["forking"] = clone.written(plan["namespaces"])


def fork(plan: dict[str, Any]) -> int:
    """Fork into new namespaces, of the kinds that the plan names."""
    return clone.fork_as_written(plan["forking"]) if plan["namespaces"] else os.fork()


def fault(namespaces: Sequence[str], error: OSError) -> bytes:
    """What is said when no child can be forked: which kind of namespace is not to be had, if that is why."""
    refused = clone.refused(namespaces) if namespaces else {}
    layer, reason = next(iter(refused.items()), ("processes", str(error)))
    return frames.message("fault", layer=layer + "_namespace" if refused else layer, reason=reason)


def become(user: Sequence[int]) -> None:
    """Take a user and a group, and have no other group."""
    os.setgroups([])
    os.setresgid(user[1], user[1], user[1])
    os.setresuid(user[0], user[0], user[0])


def adopt_orphans() -> None:
    """What descends from this process comes back to it when its parents die, so that it can be ended. gVisor knows
    nothing of that; there it goes to the container's init, and ends with the container."""
    if not IS_LINUX:
        return
    try:
        calls.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def die_with_parent(number: int) -> None:
    """Have this process sent that signal when its parent dies."""
    if IS_LINUX:
        calls.prctl(_PR_SET_PDEATHSIG, number)


def own_its_files(*, from_now_on: bool = True) -> None:
    """Give this process its own entries in /proc back, which the guard's were not its to have; or leave it at that."""
    if IS_LINUX:
        calls.prctl(_PR_SET_DUMPABLE, int(from_now_on))


def close_from(first: int) -> None:
    """Close every descriptor from that number on."""
    try:
        if IS_LINUX:
            close_at_once(first)
            return
    except OSError:
        pass
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number >= first:
            try:
                os.close(number)
            except OSError:  # the listing's own
                continue


def close_at_once(first: int) -> None:
    """The same in one call; OSError for a kernel that does not know it, which is one before 5.9."""
    calls.syscall("close_range", first, NO_DESCRIPTOR, 0)


def tell_kernel(path: str, text: str) -> None:
    """Write to a file of /proc, where it is there and may be written to."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(descriptor, text.encode())
    except OSError:
        pass
    finally:
        os.close(descriptor)
