"""The isolation of one call, set up by its guard: each layer in the order in which it still permits the next.

The isolation is nearly always the same for all calls of a box. The zygote then records its system calls once, and a
guard only makes them (see `CallScript` in kernel/calls.py). Where a call has a separate folder, its guard works them
out.

On other systems than Linux, and where the plan names no namespaces, a call has its limits, a session and a fresh
folder. That form can end a call and clean up after it. An honest tool is kept from harm that way, but a
hostile tool is not stopped.
"""

from __future__ import annotations

import errno
import os
import struct

from box import pipes, workdir
from box.isolation import IS_LINUX, IsolationFault, prepare_fork
from kernel import rlimits
from kernel.signals import signal

if IS_LINUX:
    from kernel import calls, capabilities, landlock, mounts, namespaces, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38


class RecordedIsolation:
    """The recorded isolation of a plan; `held` is the amount of shared memory that its limits allow for."""

    __slots__ = ("held", "landlock", "script")

    def __init__(self, plan: dict[str, Any]) -> None:
        self.held = plan["held"]
        self.script = calls.CallScript(first_free=pipes.first_free(plan))
        self.script.layer = "processes"
        pipes.record_arrangement(self.script, plan)
        self.landlock = _build(plan, self.script)


def prepare(plan: dict[str, Any], *, doors: int = 0) -> None:
    """Work out the part of the plan that is the same for all calls; a call meets and reports an error of it."""
    if "handed" not in plan:
        prepare_fork(plan)
        plan["handed"] = pipes.reserve()
    if plan.get("template") is not None and "handed_doors" not in plan:
        plan["handed_doors"] = pipes.reserve_doors(doors)
    written = plan.get("written")
    if not IS_LINUX or "mount" not in plan["namespaces"] or (written and written.held == plan["held"]):
        return
    plan["known"] = None
    try:
        plan["written"] = RecordedIsolation(plan)
    except OSError:
        plan["written"] = None


def set_up(plan: dict[str, Any]) -> dict[str, object] | None:
    """Isolate this process as planned, after moving its pipes to their numbers; return Landlock's report, if any.

    IsolationFault names the layer that failed.
    """
    recorded: RecordedIsolation | None = plan.get("written")
    if recorded is None:
        pipes.arrange(plan["handed"])
        return _set_up_now(plan) if IS_LINUX else _set_up_elsewhere(plan)
    try:
        recorded.script.run()
    except OSError as error:
        raise IsolationFault(recorded.script.layer, str(error)) from error
    return recorded.landlock


def record_for_template(plan: dict[str, Any], script: calls.CallScript) -> None:
    """Record the calls that a process from the template makes once it has joined its guard's namespaces."""
    script.make("umask", workdir.UMASK, gives=None)
    script.make("chdir", plan["workplace"]["path"].encode())
    _restrict_files(plan["landlock"], None, script)
    capabilities.drop_all(script)
    if plan["filter"]:
        seccomp.install(plan["filter"], script)


def close_off(plan: dict[str, Any], restricted: dict[str, Any] | None) -> None:
    """Keep the tool's process, which inherits the isolation of its guard, from signalling the guard.

    Without a pid namespace the tool could stop its guard, and no process would end the call. So Landlock limits the
    signals of the tool to itself and its children, if the report in `restricted` says that the kernel can do this.
    """
    if restricted and "pid" not in plan["namespaces"] and "signal" in restricted["scoped"]:
        landlock.keep_signals_in()


def _set_up_now(plan: dict[str, Any]) -> dict[str, object] | None:
    kernel = calls.Kernel()
    try:
        return _build(plan, kernel)
    except OSError as error:
        raise IsolationFault(kernel.layer, str(error)) from error


def _set_up_elsewhere(plan: dict[str, Any]) -> dict[str, object] | None:
    rlimits.lower(rlimits.of_plan(plan))
    try:
        workdir.enter(plan["home"])
    except OSError as error:
        raise IsolationFault("workplace", str(error)) from error
    return None


def _build(plan: dict[str, Any], kernel: calls.Kernel) -> dict[str, object] | None:
    kinds = plan["namespaces"]
    kernel.layer = "rlimits"
    _limit(plan, kernel)
    kernel.layer = "user_namespace"
    _become_the_user(plan, kernel)
    kernel.make("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL if "pid" in kinds else signal.SIGTERM)
    _enter_workplace(plan, kernel)
    if "network" in kinds:
        kernel.layer = "network_namespace"
        namespaces.raise_loopback(kernel)
        for path, text in plan.get("network_settings", {}).items():
            kernel.write_file(path, text, unless=calls.ANY_ERROR)
    if "user" in kinds:
        # The kernel counts these per user, over all namespaces: one call must not take them from others.
        kernel.write_file("/proc/sys/user/max_inotify_instances", "8", unless=calls.ANY_ERROR)
    if "uts" in kinds:
        kernel.layer = "uts_namespace"
        kernel.make("sethostname", b"sandbox", len(b"sandbox"))
    kernel.layer = "no_new_privs"
    kernel.make("prctl", _PR_SET_NO_NEW_PRIVS, 1)
    kernel.make("prctl", _PR_SET_DUMPABLE, 0)
    return _give_up_rights(plan, kernel)


def _limit(plan: dict[str, Any], kernel: calls.Kernel) -> None:
    for kind, limit in rlimits.of_plan(plan).items():
        may_fail = () if rlimits.is_known_everywhere(kind) else (errno.EPERM,)
        kernel.make("prlimit64", 0, kind, struct.pack("=qq", limit, limit), None, unless=may_fail)
    if plan["cpus"]:
        mask = sum(1 << cpu for cpu in plan["cpus"]).to_bytes(128, "little")
        kernel.make("sched_setaffinity", 0, len(mask), mask)


def _become_the_user(plan: dict[str, Any], kernel: calls.Kernel) -> None:
    kernel.make("prctl", _PR_SET_DUMPABLE, 1)
    if "user" in plan["namespaces"]:
        namespaces.write_maps(plan["user"], plan["outside"], kernel)
    if "pid" not in plan["namespaces"]:
        kernel.make("prctl", _PR_SET_CHILD_SUBREAPER, 1, unless=(errno.EINVAL,))


def _enter_workplace(plan: dict[str, Any], kernel: calls.Kernel) -> None:
    """Enter a private tmpfs, or the folder that was chosen for this call; making a folder cannot be recorded."""
    if "mount" not in plan["namespaces"]:
        kernel.layer = "workplace"
        prepare_place = workdir.furnish if plan["workplace"] else workdir.enter
        prepare_place(plan["home"])
        return
    kernel.layer = "mount_namespace"
    wanted = plan["workplace"]
    flags = mounts.NOSUID | mounts.NODEV | mounts.NOEXEC
    mounts.tmpfs(wanted["path"], size=wanted["size"], inodes=wanted["inodes"], flags=flags, mode="0700", kernel=kernel)
    kernel.make("umask", workdir.UMASK, gives=None)
    kernel.make("chdir", wanted["path"].encode())
    for name in workdir.PLACES:
        kernel.make("mkdirat", calls.AT_FDCWD, name.encode(), 0o777)
    for name, target in wanted.get("seen_at", {}).items():
        mounts.show(os.path.join(wanted["path"], name), target, kernel=kernel)
    for target in wanted.get("covered", ()):
        mounts.tmpfs(target, size=4096, inodes=2, flags=flags | mounts.RDONLY, kernel=kernel)
    if "pid" in plan["namespaces"] and plan.get("proc", True):
        mounts.proc(kernel=kernel)


def _give_up_rights(plan: dict[str, Any], kernel: calls.Kernel) -> dict[str, object] | None:
    """Set up the last layers, after which no right is left; return Landlock's report, if any.

    A guard whose process comes from the template has no Landlock domain. That process is in the template's domain, and
    a guard with a domain could neither read nor signal it.
    """
    report = plan.get("restricted")
    if not plan.get("template"):
        kernel.layer = "landlock"
        report = _restrict_files(plan["landlock"], plan.get("home"), kernel)
    kernel.layer = "capabilities"
    capabilities.drop_all(kernel)
    if plan["filter"]:
        kernel.layer = "seccomp"
        seccomp.install(plan["filter"], kernel)
    return report


def _restrict_files(wanted: dict[str, Any] | None, home: str | None, kernel: calls.Kernel) -> dict[str, object] | None:
    """Restrict files to the plan's paths, and to the folder that was made for this call."""
    if not wanted:
        return None
    rules = [(path, landlock.READ_EXECUTE) for path in wanted["execute"]]
    rules += [(path, landlock.READ_WRITE) for path in (*wanted["write"], *([home] if home else ()))]
    report = landlock.restrict(rules, network=wanted["network"], kernel=kernel)
    return report if report["abi"] else None
