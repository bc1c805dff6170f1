"""The walls around one call, put up by its guard: each in the order in which it still permits the next.

Nearly always they are the same for all calls of a box. Then they are written down once, in the zygote, and a guard only
makes the calls (see kernel/script.py); where a call has a folder of its own, its guard works them out itself.

Elsewhere than on Linux, and where the plan names no namespaces, a call has its limits, a session and a fresh folder.
That is the plain form: it ends a call and cleans up after it, and it keeps an honest tool from harm, not a hostile one
from anything.
"""

from __future__ import annotations

import errno
import os
import struct

from box import pipes, workdir
from box.isolation import IS_LINUX, WallFault, write_down_fork
from kernel import rlimits
from kernel.signals import signal

if IS_LINUX:
    from kernel import calls, capabilities, clone, landlock, loopback, mounts, seccomp
    from kernel.script import Script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38


class Written:
    """The walls of a plan, written down; `held` is what was known then of the memory they are to leave."""

    __slots__ = ("held", "landlock", "script")

    def __init__(self, plan: dict[str, Any]) -> None:
        self.held = plan["held"]
        self.script = Script(first_free=pipes.first_free(plan))
        self.script.wall = "processes"
        pipes.write_down_arrangement(self.script, plan)
        self.landlock = _build(plan, self.script)


def prepare(plan: dict[str, Any], *, doors: int = 0) -> None:
    """Work out for the plan what is the same for all of its calls. What fails is left for a call to meet and tell."""
    if "handed" not in plan:
        write_down_fork(plan)
        plan["handed"] = pipes.reserve()
    if plan.get("template") is not None and "handed_doors" not in plan:
        plan["handed_doors"] = pipes.reserve_doors(doors)
    written = plan.get("written")
    if not IS_LINUX or "mount" not in plan["namespaces"] or (written and written.held == plan["held"]):
        return
    plan["known"] = None
    try:
        plan["written"] = Written(plan)
    except OSError:
        plan["written"] = None


def put_up(plan: dict[str, Any]) -> dict[str, object] | None:
    """All walls of the plan around this process, its pipes in their places first; what Landlock restricts, if it does.
    `WallFault` names what failed."""
    written: Written | None = plan.get("written")
    if written is None:
        pipes.arrange(plan["handed"])
        return _put_up_now(plan) if IS_LINUX else _put_up_elsewhere(plan)
    try:
        written.script.run()
    except OSError as error:
        raise WallFault(written.script.wall, str(error)) from error
    return written.landlock


def write_down_own(plan: dict[str, Any], script: Script) -> None:
    """Write down what a process that came from the template does once it is in its guard's namespaces."""
    script.make("umask", workdir.UMASK, gives=None)
    script.make("chdir", plan["workplace"]["path"].encode())
    _restrict_files(plan["landlock"], None, script)
    capabilities.drop_all(script)
    if plan["filter"]:
        seccomp.install(plan["filter"], script)


def close_off(plan: dict[str, Any], restricted: dict[str, Any] | None) -> None:
    """The tool's process, which has the walls of its guard around it, closes itself off from that. Where no pid
    namespace shields a guard, its tool could stop it, and nobody would end the call; so it signals only itself and
    what it starts, where the kernel lets Landlock see to that, as it says in what is `restricted`."""
    if restricted and "pid" not in plan["namespaces"] and "signal" in restricted["scoped"]:
        landlock.keep_signals_in()


def _put_up_now(plan: dict[str, Any]) -> dict[str, object] | None:
    kernel = calls.Kernel()
    try:
        return _build(plan, kernel)
    except OSError as error:
        raise WallFault(kernel.wall, str(error)) from error


def _put_up_elsewhere(plan: dict[str, Any]) -> dict[str, object] | None:
    rlimits.lower(rlimits.of_plan(plan))
    try:
        workdir.enter(plan["home"])
    except OSError as error:
        raise WallFault("workplace", str(error)) from error
    return None


def _build(plan: dict[str, Any], kernel: calls.Kernel) -> dict[str, object] | None:
    kinds = plan["namespaces"]
    kernel.wall = "rlimits"
    _limit(plan, kernel)
    kernel.wall = "user_namespace"
    _become_the_user(plan, kernel)
    kernel.make("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL if "pid" in kinds else signal.SIGTERM)
    _enter_workplace(plan, kernel)
    if "network" in kinds:
        kernel.wall = "network_namespace"
        loopback.raise_loopback(kernel)
        for path, text in plan.get("network_settings", {}).items():
            kernel.write_file(path, text, unless=calls.ANY_ERROR)
    if "user" in kinds:
        # Counted per user, over all namespaces: one call must not take them from others.
        kernel.write_file("/proc/sys/user/max_inotify_instances", "8", unless=calls.ANY_ERROR)
    if "uts" in kinds:
        kernel.wall = "uts_namespace"
        kernel.make("sethostname", b"sandbox", len(b"sandbox"))
    kernel.wall = "no_new_privs"
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
        clone.write_maps(plan["user"], plan["outside"], kernel)
    if "pid" not in plan["namespaces"]:
        kernel.make("prctl", _PR_SET_CHILD_SUBREAPER, 1, unless=(errno.EINVAL,))


def _enter_workplace(plan: dict[str, Any], kernel: calls.Kernel) -> None:
    """A private tmpfs, or the folder that was chosen for this call: that is made at once, and so never written down."""
    if "mount" not in plan["namespaces"]:
        kernel.wall = "workplace"
        prepare_place = workdir.furnish if plan["workplace"] else workdir.enter
        prepare_place(plan["home"])
        return
    kernel.wall = "mount_namespace"
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
    """Nothing that needs a right comes after this; what Landlock restricts, if it does.

    A guard whose process comes from the template has no Landlock domain, because it could then neither read nor signal
    that process, which is in the template's.
    """
    report = plan.get("restricted")
    if not plan.get("template"):
        kernel.wall = "landlock"
        report = _restrict_files(plan["landlock"], plan.get("home"), kernel)
    kernel.wall = "capabilities"
    capabilities.drop_all(kernel)
    if plan["filter"]:
        kernel.wall = "seccomp"
        seccomp.install(plan["filter"], kernel)
    return report


def _restrict_files(wanted: dict[str, Any] | None, home: str | None, kernel: calls.Kernel) -> dict[str, object] | None:
    """To what the plan names, and to a folder that was made for this call alone."""
    if not wanted:
        return None
    rules = [(path, landlock.READ_EXECUTE) for path in wanted["execute"]]
    rules += [(path, landlock.READ_WRITE) for path in (*wanted["write"], *([home] if home else ()))]
    report = landlock.restrict(rules, network=wanted["network"], kernel=kernel)
    return report if report["abi"] else None
