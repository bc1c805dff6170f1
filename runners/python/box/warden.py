"""The warden: the one process of a box that stays outside of it.

It starts the zygote in fresh namespaces and then does nothing but wait, for either of two things: the zygote's end, or
the end of its own standard input, which the engine holds open for as long as the box shall live. Whichever comes first,
the zygote is killed, and with it, being the first process of its pid namespace, everything in the box. Nothing from
inside can reach the warden: it has no descriptor into the box, and another user id or pid namespace lies between.

So when the engine is killed at any moment, the box is gone a moment later, and the warden removes the control groups
that the engine can no longer remove.

What the zygote does here before it becomes the zygote is to move in: build the tree of files it may see, enter it, give
up its user id and its privileges. No byte of foreign code has run until then.
"""

from __future__ import annotations

import gc
import os
import select

from box import fast_json, isolation, kill_tree, workdir
from box.cgroup_cleanup import remove_groups
from kernel import calls, capabilities, clone, mounts, seccomp
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_STAGE = "/tmp"
_CAP_SYS_ADMIN = 21
RESUMED = "@"


class BoxFault(Exception):
    """A wall of the box could not be put up; `layer` names it."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(layer, reason)
        self.layer = layer
        self.reason = reason


def open_box(
    whole: dict[str, Any], *, channel: int, groups: Sequence[str], load: Callable[[], object]
) -> dict[str, str]:
    """Return, in the zygote only, what the box's own walls turned out to be; the warden never returns. What the zygote
    needs is loaded in it alone, before the runner's folder is out of sight."""
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
        raise BoxFault("processes", str(error)) from error
    if pid == 0:
        calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # loading takes a while; changes of its user undo this
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in (wake_read, wake_write, 0):
            os.close(descriptor)
        os.open(os.devnull, os.O_RDONLY)
        if not _starts_again(plan, namespaces):  # which loads it in a new interpreter
            load()
        return _move_in(whole, namespaces, refused, channel)
    os.close(channel)
    if whole["call"].get("egress"):
        os.close(whole["call"]["egress"]["descriptor"])
    status = _watch(pid, wake_read)
    if "pid" not in namespaces:
        kill_tree.end_descendants()
        workdir.remove_left(whole["call"], os.getpid())
    remove_groups(groups)
    os._exit(os.WTERMSIG(status) + 128 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _fork(wanted: list[str]) -> tuple[int, list[str], dict[str, str]]:
    """Fork into the namespaces this kernel gives us; those it refuses are named with its reasons."""
    try:
        return clone.fork(wanted), wanted, {}
    except OSError:
        refused = clone.refused(wanted)
        granted = [kind for kind in wanted if kind not in refused]
        return clone.fork(granted), granted, refused


def _watch(pid: int, wake: int) -> int:
    """Wait for the zygote's end or our owner's; how the zygote ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(wake, select.POLLIN)
    status = None
    while status is None:
        ready = dict(poll.poll())
        if 0 in ready or _was_told_to_end(wake, ready):
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        else:
            done, code = os.waitpid(pid, os.WNOHANG)
            status = code if done else None
    return status


def _was_told_to_end(wake: int, ready: dict[int, int]) -> bool:
    return wake in ready and signal.SIGTERM in os.read(wake, 64)


def _move_in(whole: dict[str, Any], namespaces: list[str], refused: dict[str, str], channel: int) -> dict[str, str]:
    """Put up the box's own walls, in the order in which each is still permitted to put up the next."""
    plan = whole["box"]
    for door in plan["doors"]:
        _attempt("cgroup", _enter, door)
    template = whole.get("template")
    if template:  # its doors are out of sight once the box's tree stands
        template["doors"] = [os.open(door, os.O_WRONLY | os.O_CLOEXEC) for door in template["doors"]]
    # When memory runs out, boxes go before the host's own programs; what root sets, a tool cannot lower.
    isolation.tell_kernel("/proc/self/oom_score_adj", "800")
    os.setsid()
    os.umask(0o077)
    layers = {kind + "_namespace": reason for kind, reason in refused.items()}
    user = plan["user"]
    if "user" in namespaces:
        _attempt("user_namespace", clone.write_maps, user, plan["identity"])
    if "mount" in namespaces:
        _attempt("mount_namespace", _build_tree, plan)
    if _starts_again(plan, namespaces):
        _start_again(whole, layers, channel)
    start_template(whole)
    if plan["identity"] != user and "user" not in plan["namespaces"]:
        _attempt("own_uid", isolation.become, user)
    settle_in(plan)
    return layers


def _starts_again(plan: dict[str, Any], namespaces: Sequence[str]) -> bool:
    return bool(plan["again"]) and "mount" in namespaces


def _start_again(whole: dict[str, Any], layers: dict[str, str], channel: int) -> NoReturn:
    """Where the box's user owns the interpreter's file, /proc/self/exe must not lead to it by way of the host's own
    mount, where nothing stands before a change of its mode: run it anew from the box's read-only tree."""
    told = os.memfd_create("plan", 0)
    os.write(told, fast_json.write({"plan": whole, "refused": layers}).encode())
    os.set_inheritable(channel, True)
    if whole.get("template"):
        for door in whole["template"]["doors"]:
            os.set_inheritable(door, True)
        capabilities.keep_across_exec(_CAP_SYS_ADMIN)  # for the template's own view of /proc
    python, runner = whole["box"]["again"]
    arguments = [python, "-I", "-S", "-B", runner, str(channel), RESUMED + str(told)]
    try:
        os.execv(python, arguments)
    except OSError as error:
        raise BoxFault("mount_namespace", "exec %s: %s" % (python, error)) from error


def resume(told: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The plan, and what was refused, for a zygote that was started again; the rest of the walls is up then."""
    descriptor = int(told[len(RESUMED) :])
    with open(descriptor, "rb") as file:
        file.seek(0)
        content = fast_json.read(file.read().decode("ascii"))
    start_template(content["plan"])
    settle_in(content["plan"]["box"])
    return content["plan"], content["refused"]


def start_template(whole: dict[str, Any]) -> None:
    """Fork the process that imports packages, if there is to be one, while there are rights to give it a view of /proc
    of its own. Where that cannot be, each call imports for itself."""
    wanted = whole.get("template")
    if not wanted:
        return
    from zygote import template

    try:
        if whole["box"].get("stands"):
            clone.enter_user_namespace()
        wanted["started"] = template.start(whole, wanted["doors"])
    except OSError:
        wanted["started"] = None
    finally:
        for door in wanted["doors"]:
            os.close(door)


def settle_in(plan: dict[str, Any]) -> None:
    """The walls that need no privilege, and take away all there is. An interrupt, for which Python has a handler of its
    own, would reach the first process of a call's pid namespace from inside."""
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
        raise BoxFault(layer, "%s: %s" % (build.__name__.strip("_"), error)) from error


def _enter(door: str) -> None:
    """Into a control group, before the host's files are out of sight. The warden stays out: it removes them."""
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
