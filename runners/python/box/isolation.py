"""Small requests to the kernel that do not belong to the isolation of a call (box/call_isolation.py).

All of them are for Linux, and `IS_LINUX` is the one place that finds out.
"""

from __future__ import annotations

import errno
import os
import sys

from box import frames

IS_LINUX = sys.platform == "linux"
if IS_LINUX:
    from kernel import calls
    from kernel import namespaces as kernel_namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
SHORTAGES_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, *SHORTAGES_OF_DESCRIPTORS)
"""An operation that fails with one of these may succeed when some other process has ended."""

NO_DESCRIPTOR = 0xFFFFFFFF


class IsolationFault(Exception):
    """A layer of isolation could not be set up; `layer` names it."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(layer, reason)
        self.layer = layer
        self.reason = reason


def prepare_fork(plan: dict[str, Any]) -> None:
    """Work out the part that is the same for all forks into the plan's namespaces."""
    if plan["namespaces"]:
        plan["forking"] = kernel_namespaces.prepare_fork(plan["namespaces"])


def fork(plan: dict[str, Any]) -> int:
    """Fork into new namespaces of the plan's kinds."""
    return kernel_namespaces.fork_prepared(plan["forking"]) if plan["namespaces"] else os.fork()


def fault(namespaces: Sequence[str], error: OSError) -> bytes:
    """Return the message for a failed fork of a child; a kind of namespace that the kernel refuses is the reason."""
    refused = kernel_namespaces.find_refused(namespaces) if namespaces else {}
    layer, reason = next(iter(refused.items()), ("processes", str(error)))
    return frames.message("fault", layer=layer + "_namespace" if refused else layer, reason=reason)


def become(user: Sequence[int]) -> None:
    """Change to a user and a group, without other groups."""
    os.setgroups([])
    os.setresgid(user[1], user[1], user[1])
    os.setresuid(user[0], user[0], user[0])


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants, so that it can end them.

    gVisor does not support that. There the container's init adopts them, and they end with the container.
    """
    if not IS_LINUX:
        return
    try:
        calls.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def die_with_parent(number: int) -> None:
    """Have the kernel send that signal to this process when its parent dies."""
    if IS_LINUX:
        calls.prctl(_PR_SET_PDEATHSIG, number)


def own_its_files(*, from_now_on: bool = True) -> None:
    """Make this process dumpable or not: a dumpable process owns its entries in /proc, a fork of a guard does not."""
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
    """Do the same in one system call; raise OSError on a kernel before 5.9."""
    calls.syscall("close_range", first, NO_DESCRIPTOR, 0)


def write_proc(path: str, text: str) -> None:
    """Write to a file of /proc, if the file exists and is writable."""
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
