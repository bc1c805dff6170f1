"""The walls around one call, put up by its guard: each in the order in which it still permits the next.

They are the kernel's, so they are for Linux, and `IS_LINUX` is the one place that asks. Elsewhere, and where the plan
names no namespaces, a call has its limits, a session and a fresh folder. That is the plain form: it ends a call and
cleans up after it, and it keeps an honest tool from harm, not a hostile one from anything.
"""

from __future__ import annotations

import os
import signal
import sys

import frames
import workplace

IS_LINUX = sys.platform == "linux"
if IS_LINUX:
    from kernel import calls, capabilities, clone, landlock, loopback, mounts, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38


class WallFault(Exception):
    """A wall could not be put up; `layer` names it."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(layer, reason)
        self.layer = layer
        self.reason = reason


def fork(namespaces: Sequence[str]) -> int:
    """Fork into new namespaces of these kinds."""
    return clone.fork(namespaces) if namespaces else os.fork()


def fault(namespaces: Sequence[str], error: OSError) -> bytes:
    """What is said when no child can be forked: which kind of namespace is not to be had, if that is why."""
    refused = clone.refused(namespaces) if namespaces else {}
    layer, reason = next(iter(refused.items()), ("processes", str(error)))
    return frames.message("fault", layer=layer + "_namespace" if refused else layer, reason=reason)


def put_up(plan: dict[str, Any]) -> dict[str, object] | None:
    """All walls of the plan around this process; what Landlock restricts, if it does. `WallFault` names what failed."""
    if not IS_LINUX:
        _attempt("workplace", workplace.enter, plan["home"])
        return None
    kinds = plan["namespaces"]
    _attempt("user_namespace", _become_the_user, plan)
    die_with_parent(signal.SIGKILL if "pid" in kinds else signal.SIGTERM)
    if "mount" in kinds:
        _attempt("mount_namespace", _mount_workplace, plan)
    else:
        _attempt("workplace", workplace.enter, plan["home"])
    if "network" in kinds:
        _attempt("network_namespace", loopback.raise_loopback)
    if "user" in kinds:
        # Counted per user, over all namespaces: one call must not take them from others.
        tell_kernel("/proc/sys/user/max_inotify_instances", "8")
    if "uts" in kinds:
        _attempt("uts_namespace", _name_the_host, b"sandbox")
    _attempt("no_new_privs", calls.prctl, _PR_SET_NO_NEW_PRIVS, 1)
    calls.prctl(_PR_SET_DUMPABLE, 0)
    report: dict[str, object] | None = _attempt("landlock", _restrict_files, plan["landlock"], plan["home"])
    _attempt("capabilities", capabilities.drop_all)
    if plan["filter"]:
        _attempt("seccomp", seccomp.install, plan["filter"])
    return report


def adopt_orphans() -> None:
    """What descends from this process comes back to it when its parents die, so that it can be ended."""
    if IS_LINUX:
        calls.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Have this process sent that signal when its parent dies."""
    if IS_LINUX:
        calls.prctl(_PR_SET_PDEATHSIG, number)


def own_its_files() -> None:
    """Give this process its own entries in /proc back, which the guard's were not its to have."""
    if IS_LINUX:
        calls.prctl(_PR_SET_DUMPABLE, 1)


def close_from(first: int) -> None:
    """Close every descriptor from that number on."""
    try:
        if IS_LINUX:
            calls.syscall("close_range", first, 0xFFFFFFFF, 0)
            return
    except OSError:  # a kernel before 5.9
        pass
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number >= first:
            try:
                os.close(number)
            except OSError:  # the listing's own
                continue


def _attempt(layer: str, build: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return build(*arguments)
    except OSError as error:
        raise WallFault(layer, str(error)) from error


def _become_the_user(plan: dict[str, Any]) -> None:
    calls.prctl(_PR_SET_DUMPABLE, 1)
    if "user" in plan["namespaces"]:
        clone.write_maps(plan["user"], plan["outside"])
    if "pid" not in plan["namespaces"]:
        adopt_orphans()


def _mount_workplace(plan: dict[str, Any]) -> None:
    wanted = plan["workplace"]
    flags = mounts.NOSUID | mounts.NODEV | mounts.NOEXEC
    mounts.tmpfs(wanted["path"], size=wanted["size"], inodes=wanted["inodes"], flags=flags, mode="0700")
    workplace.furnish(wanted["path"])
    if "pid" in plan["namespaces"]:
        mounts.proc()


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


def _name_the_host(name: bytes) -> None:
    calls.check(calls.libc.sethostname(name, len(name)), "sethostname")


def _restrict_files(wanted: dict[str, Any] | None, home: str | None) -> dict[str, object] | None:
    """To what the plan names, and to a folder that was made for this call alone."""
    if not wanted:
        return None
    rules = [(path, landlock.READ_EXECUTE) for path in wanted["execute"]]
    rules += [(path, landlock.READ_WRITE) for path in (*wanted["write"], *([home] if home else ()))]
    report = landlock.restrict(rules, network=wanted["network"])
    return report if report["abi"] else None
