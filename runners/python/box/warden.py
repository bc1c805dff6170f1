"""The warden: the one process of a box that stays outside of it.

The warden starts the zygote in fresh namespaces and then only waits, for either of two events: the end of the zygote,
or the end of its own standard input, which the engine holds open for the life of the box. Whichever comes first, the
warden kills the zygote, and with it all processes in the box, because the zygote is the first process of its pid
namespace. No process inside can reach the warden: the warden has no descriptor into the box, and another user id or pid
namespace lies between them.

So when the engine is killed at any moment, the box is gone a moment later, and the warden removes the control groups
that the engine can no longer remove.

The forked process moves in before it becomes the zygote: it builds the file tree of the box, enters it, and gives up
its user id and its privileges. Until then no foreign code has run.
"""

from __future__ import annotations

import gc
import os
import select

from box import fast_json, isolation, processes, workdir
from box.isolation import IsolationFault
from kernel import calls, capabilities, mounts, seccomp
from kernel import namespaces as kernel_namespaces
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_STAGE = "/tmp"
_CAP_SYS_ADMIN = 21
RESUMED = "@"


def open_box(
    whole: dict[str, Any], *, channel: int, groups: Sequence[str], load: Callable[[], object]
) -> dict[str, str]:
    """Fork the zygote into the box; return the refused layers in the zygote, and never in the warden.

    Only the zygote calls `load`, before the box hides the runner's folder. Raise IsolationFault for a layer that fails.
    """
    plan = whole["box"]
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    if "pid" not in plan["namespaces"]:
        isolation.adopt_orphans()
    gc.freeze()  # a collection in the zygote writes to no page that the two still share
    try:
        pid, namespaces, refused = _fork(plan["namespaces"])
    except OSError as error:
        remove_groups(groups)
        raise IsolationFault("processes", str(error)) from error
    if pid == 0:
        # Loading takes time, in which the warden may die. A change of the user id clears this setting again.
        calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in (wake_read, wake_write, 0):
            os.close(descriptor)
        os.open(os.devnull, os.O_RDONLY)
        if not _must_execute(plan, namespaces):  # a new interpreter would load everything itself
            load()
        return _move_in(whole, namespaces, refused, channel)
    os.close(channel)
    if whole["call"].get("egress"):
        os.close(whole["call"]["egress"]["descriptor"])
    status = _watch(pid, wake_read)
    if "pid" not in namespaces:
        processes.end_descendants()
        workdir.remove_left(whole["call"], os.getpid())
    remove_groups(groups)
    os._exit(os.WTERMSIG(status) + 128 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _fork(wanted: list[str]) -> tuple[int, list[str], dict[str, str]]:
    """Fork into the namespaces that this kernel grants; return the pid, the granted kinds, and the refused kinds."""
    try:
        return kernel_namespaces.fork(wanted), wanted, {}
    except OSError:
        refused = kernel_namespaces.find_refused(wanted)
        granted = [kind for kind in wanted if kind not in refused]
        return kernel_namespaces.fork(granted), granted, refused


def _watch(pid: int, wake: int) -> int:
    """Wait for the end of the zygote or of the engine; return the zygote's exit status."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(wake, select.POLLIN)
    status = None
    while status is None:
        ready = dict(poll.poll())
        if 0 in ready or _has_sigterm(wake, ready):
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        else:
            done, code = os.waitpid(pid, os.WNOHANG)
            status = code if done else None
    return status


def _has_sigterm(wake: int, ready: dict[int, int]) -> bool:
    return wake in ready and signal.SIGTERM in os.read(wake, 64)


def _move_in(whole: dict[str, Any], namespaces: list[str], refused: dict[str, str], channel: int) -> dict[str, str]:
    """Set up the isolation of the box, each layer in the order in which it still permits the next."""
    plan = whole["box"]
    for door in plan["doors"]:
        _attempt("cgroup", _enter, door)
    template = whole.get("template")
    if template:  # the box's file tree will hide the doors
        template["doors"] = [os.open(door, os.O_WRONLY | os.O_CLOEXEC) for door in template["doors"]]
    # When memory runs out, boxes go before the host's own programs; what root sets, a tool cannot lower.
    isolation.write_proc("/proc/self/oom_score_adj", "800")
    os.setsid()
    os.umask(0o077)
    layers = {kind + "_namespace": reason for kind, reason in refused.items()}
    user = plan["user"]
    if "user" in namespaces:
        _attempt("user_namespace", kernel_namespaces.write_maps, user, plan["identity"])
    if "mount" in namespaces:
        _attempt("mount_namespace", _build_tree, plan)
    if _must_execute(plan, namespaces):
        _execute_again(whole, layers, channel)
    start_template(whole)
    if plan["identity"] != user and "user" not in plan["namespaces"]:
        _attempt("own_uid", isolation.become, user)
    settle_in(plan)
    return layers


def _must_execute(plan: dict[str, Any], namespaces: Sequence[str]) -> bool:
    return bool(plan["again"]) and "mount" in namespaces


def _execute_again(whole: dict[str, Any], layers: dict[str, str], channel: int) -> NoReturn:
    """Execute the interpreter anew from the box's read-only tree.

    Where the box's user owns the interpreter's file, /proc/self/exe would otherwise lead to the file in the host's own
    mount, where the user could change its mode.
    """
    saved = os.memfd_create("plan", 0)
    os.write(saved, fast_json.write({"plan": whole, "refused": layers}).encode())
    os.set_inheritable(channel, True)
    if whole.get("template"):
        for door in whole["template"]["doors"]:
            os.set_inheritable(door, True)
        capabilities.keep_across_exec(_CAP_SYS_ADMIN)  # for the template's own view of /proc
    python, runner = whole["box"]["again"]
    arguments = [python, "-I", "-S", "-B", runner, str(channel), RESUMED + str(saved)]
    try:
        os.execv(python, arguments)
    except OSError as error:
        raise IsolationFault("mount_namespace", "exec %s: %s" % (python, error)) from error


def resume(argument: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Set up the rest of the isolation in the new interpreter; return the plan and the refused layers."""
    descriptor = int(argument[len(RESUMED) :])
    with open(descriptor, "rb") as file:
        file.seek(0)
        content = fast_json.read(file.read().decode("ascii"))
    start_template(content["plan"])
    settle_in(content["plan"]["box"])
    return content["plan"], content["refused"]


def start_template(whole: dict[str, Any]) -> None:
    """Fork the template, if one is wanted, while this process has the rights to give it a separate view of /proc.

    If that fails, each call imports for itself.
    """
    wanted = whole.get("template")
    if not wanted:
        return
    from zygote import template

    try:
        if whole["box"].get("stands"):
            kernel_namespaces.enter_user_namespace()
        wanted["started"] = template.start(whole, wanted["doors"])
    except OSError:
        wanted["started"] = None
    finally:
        for door in wanted["doors"]:
            os.close(door)


def settle_in(plan: dict[str, Any]) -> None:
    """Set up the layers that need no privilege and remove all privileges."""
    # Python handles SIGINT, so the signal would reach the first process of a call's pid namespace from inside.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _attempt("capabilities", capabilities.drop_all)
    calls.prctl(_PR_SET_DUMPABLE, 0)
    if plan["filter"]:
        _attempt("seccomp", seccomp.install, bytes.fromhex(plan["filter"]))


def _attempt(layer: str, build: Callable[..., None], *args: Any) -> None:
    try:
        build(*args)
    except OSError as error:
        raise IsolationFault(layer, "%s: %s" % (build.__name__.strip("_"), error)) from error


def _enter(door: str) -> None:
    """Enter a control group, while the host's files are visible; the warden stays out, because it removes the group."""
    with open(door, "w") as group:
        group.write("0")


def _build_tree(plan: dict[str, Any]) -> None:
    mounts.isolate_propagation()
    mounts.enter_new_root(_STAGE)
    os.umask(0o022)
    for path, target in plan["links"].items():
        _parents(path)
        os.symlink(target, path)
    for path, text in plan["files"].items():
        _parents(path)
        with open(path, "w") as file:
            file.write(text)
    for path in plan["folders"]:
        os.makedirs(path, exist_ok=True)
    for source, target, flags in plan["binds"]:
        _show("/.host" + source, target, flags)
    for path in plan["masks"]:
        if os.path.isdir(path):
            mounts.tmpfs(path, size=4096, inodes=2, flags=mounts.RDONLY | mounts.NOSUID | mounts.NODEV)
    if "pid" in plan["namespaces"]:
        mounts.proc()
    mounts.leave_old_root()
    os.umask(0o077)
    own, flags = plan["own_place"], mounts.NOSUID | mounts.NODEV | mounts.NOEXEC
    mounts.tmpfs(own["path"], size=own["size"], inodes=own["inodes"], flags=flags, mode="0700")
    os.chown(own["path"], *own["owner"])


def _show(source: str, target: str, flags: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        _parents(target)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mounts.bind(source, target, flags)


def _parents(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)


def remove_groups(groups: Iterable[str]) -> None:
    """Remove control groups, children first, that no engine is left to remove; the engine may have been quicker."""
    for group in groups:
        for folder, _, _ in sorted(os.walk(group), reverse=True):
            try:
                os.rmdir(folder)
            except OSError:
                pass
    for owner in {os.path.dirname(group) for group in groups}:
        try:
            os.rmdir(owner)
        except OSError:  # the owner has other boxes
            pass
