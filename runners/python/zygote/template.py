"""The template: an interpreter that imports an environment's packages once, and forks the processes that run tools.

Packages are foreign code, so this process is as little trusted as a tool. The template never holds the engine's
channel, never isolates other processes, and its messages are no measurements. The zygote forks it before any foreign
code runs, and the template isolates itself first: a control group and limits of one call, a view of /proc without the
zygote and the guards, no capabilities, and the filter of tools, which here also allows setns. Only then it imports.

For each call a guard sends an order: descriptors of the guard's namespaces, the call's pipes, and a link to the guard.

    template ── fork ── joiner      enters the guard's user namespace first, which gives it the rights for the others
                          └─ fork ── opener     the first of ours in the guard's pid namespace; ends at once
                                       └─ fork ── the tool's process, now a child of the guard

The third fork is there because the kernel hands an orphan to the first process of its *parent's* pid namespace, which
for the opener would be the zygote. The tool's process gives up the rights it got, sets up the layers that only a
process itself can set up (Landlock, the filter), and waits for the guard to verify it (see box/verification.py).

The template stops itself (SIGSTOP) after each order, and the zygote lets it continue for the next. So no thread, timer
or signal handler of a package runs without an order.

Messages on the control socket, each one packet of JSON: the zygote and the guards send {"preload"}, {"compile"} or
{"birth"}, each with a ticket. The template sends {"standing"} once, and answers with {"done": ticket}, and with the
result of an import.
"""

from __future__ import annotations

import _socket as socket
import fcntl
import os
import struct

from box import call_isolation, fast_json, isolation, pipes, verification
from box.isolation import IS_LINUX
from call import compiled, preloading, tool_process
from kernel import rlimits
from kernel.signals import signal
from zygote import boot, environment

if IS_LINUX:
    from kernel import calls, capabilities, landlock, mounts, namespaces, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_GUARD = 1
"""The pid of a guard in its own namespace."""
_FIRST_OWN = 64
"""The template's own descriptors stay above the numbers of a call's pipes."""
_LINK = pipes.FIRST_FREE
_ENDS = (pipes.REQUEST, 1, 2, pipes.VALUE, _LINK)
_MAX_MESSAGE = 1 << 18
_MAX_DESCRIPTORS = 32
_SHOWN_OF_PROC = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version")
_MOVE_FROM_DESCRIPTOR, _CLONE_TREE = 4, 1


class TemplateProcess:
    """The zygote's hold on a template: its pid, the control socket, and the pipe with its packages' errors."""

    __slots__ = ("control", "errors", "pid")

    def __init__(self, pid: int, control: int, errors: int) -> None:
        self.pid = pid
        self.control = control
        self.errors = errors


def start(whole: dict[str, Any], doors: Sequence[int]) -> TemplateProcess:
    """Fork the template of this box, while this process still has the rights to give it a separate view of /proc.

    `doors` are open files of its control group. Raise OSError if the kernel has no process or descriptors for it.
    """
    isolation.adopt_orphans()  # later, orphans of a package could already be children of a container's init
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _or_explain(_main, whole, far, writing, doors)
        control = fcntl.fcntl(near.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
        errors = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
    finally:
        for end in (near, far):
            end.close()
        os.close(reading)
        os.close(writing)
    os.set_blocking(errors, False)
    return TemplateProcess(pid, control, errors)


def _main(whole: dict[str, Any], control: socket.socket, errors: int, doors: Sequence[int]) -> None:
    link = _isolate(whole, control, errors, doors)
    boot.prepare(whole)
    script, report = _prepare_children(whole["call"], doors=len(doors))
    _say(link, {"standing": report})
    _import(whole["installed"], whole["preload"], link)
    _serve(link, whole["call"], script)


def _isolate(whole: dict[str, Any], control: socket.socket, errors: int, doors: Sequence[int]) -> socket.socket:
    """Isolate this process like a tool; return the control socket, the only descriptor besides the standard ones."""
    box, call_plan = whole["box"], whole["call"]
    for door in doors:
        os.write(door, b"0")
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _hide_processes(whole)
    if not box.get("stands") and box["identity"] != box["user"] and "user" not in box["namespaces"]:
        isolation.become(box["user"])
    calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    link = _arrange(control, errors)
    call_plan["held"] = verification.data_bytes()
    rlimits.lower(rlimits.of_template(call_plan))
    if call_plan["cpus"]:
        os.sched_setaffinity(0, call_plan["cpus"])
    calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    call_plan["restricted"] = _restrict(call_plan["landlock"], call_plan["workplace"]["path"])
    if not whole["template"]["has_own_rules"]:
        call_plan["landlock"] = None
    capabilities.drop_all()
    calls.prctl(_PR_SET_DUMPABLE, 1)  # packages may read what /proc shows of their own process
    seccomp.install(bytes.fromhex(whole["template"]["filter"]))
    return link


def _hide_processes(whole: dict[str, Any]) -> None:
    """Enter a mount namespace whose /proc shows no processes but this one and its descendants."""
    calls.syscall("unshare", namespaces.FLAGS["mount"])
    mounts.isolate_propagation()
    if not whole["box"].get("stands"):
        mounts.proc(options="hidepid=invisible")
        return
    # A container's /proc has masked entries, so the kernel allows no further mount of it. A few entries are enough.
    own = str(os.getpid())
    shown = [
        (name, _copy_of_tree("/proc/" + name)) for name in (*_SHOWN_OF_PROC, own) if os.path.exists("/proc/" + name)
    ]
    mounts.tmpfs("/proc", size=1 << 16, inodes=64, mode="0755")
    for name, tree in shown:
        _put_there(tree, "/proc/" + name, is_folder=name in ("sys", own))
    for name, target in (("self", own), ("thread-self", own + "/task/" + own), ("mounts", "self/mounts")):
        os.symlink(target, "/proc/" + name)


def _copy_of_tree(path: str) -> int:
    return calls.syscall("open_tree", calls.AT_FDCWD, path.encode(), _CLONE_TREE | os.O_CLOEXEC)


def _put_there(tree: int, path: str, *, is_folder: bool) -> None:
    if is_folder:
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o444))
    calls.syscall("move_mount", tree, b"", calls.AT_FDCWD, path.encode(), _MOVE_FROM_DESCRIPTOR)
    os.close(tree)


def _arrange(control: socket.socket, errors: int) -> socket.socket:
    """Close every descriptor but the control socket and the pipe for the errors of packages."""
    link = socket.socket(fileno=fcntl.fcntl(control.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN))
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number, False)
    os.dup2(errors, 2, False)
    os.closerange(3, link.fileno())
    isolation.close_from(link.fileno() + 1)
    return link


def _restrict(wanted: dict[str, Any] | None, folder: str) -> dict[str, object] | None:
    """Apply the part of Landlock that every call can share; the folder of a call is a mount that does not exist yet.

    `folder` is a folder that this process may write to.
    """
    if not wanted:
        return None
    report = landlock.restrict([("/", landlock.READ_EXECUTE), ("/", landlock.READ_WRITE)], network=wanted["network"])
    return dict(report, is_shared=True) if verification.is_landlocked(folder) else None


def _prepare_children(plan: dict[str, Any], *, doors: int) -> tuple[calls.CallScript, dict[str, object] | None]:
    """Record, before foreign code runs, the system calls by which each child isolates itself."""
    script = calls.CallScript(first_free=_LINK + 1 + doors)
    call_isolation.record_for_template(plan, script)
    return script, plan["restricted"]


def _import(installed: Sequence[str], modules: list[str], link: socket.socket) -> None:
    """Enter the environment and import; from here on this process is foreign."""
    preloading.enter(*installed)
    _report_import(modules, link, ticket=0)
    environment.rehearse_calls()
    _reap()
    _stop()


def _report_import(modules: list[str], link: socket.socket, *, ticket: int) -> None:
    _, failed, left_open = preloading.preload(modules)
    _reap()
    report = {"failed": failed, "left_open": left_open, "threads": preloading.count_threads()}
    _say(link, {"done": ticket, "imported": report})


def _serve(link: socket.socket, plan: dict[str, Any], script: calls.CallScript) -> NoReturn:
    plain_fork = namespaces.prepare_fork(())
    room = bytearray(_MAX_MESSAGE)
    while True:
        order, descriptors = _receive(link, room)
        if "preload" in order:
            _report_import(order["preload"], link, ticket=order["ticket"])
            preloading.freeze()
        else:
            if "birth" in order:
                _fork_tool(order["birth"], descriptors, plan, script, plain_fork)
            if "compile" in order:
                compiled.keep(order["compile"], order["path"])
                preloading.freeze()
            _reap()
            _say(link, {"done": order["ticket"]})
        _reap()
        _stop()


def _fork_tool(
    order: dict[str, Any],
    descriptors: list[int],
    plan: dict[str, Any],
    script: calls.CallScript,
    plain_fork: tuple[int, ...],
) -> None:
    joiner = os.fork()
    if joiner == 0:
        try:
            _join_and_fork(order, descriptors, plan, script, plain_fork)
        finally:  # the namespaces of a call that was killed meanwhile accept no process
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    os.waitpid(joiner, 0)


def _or_explain(do: Callable[..., None], *given: Any) -> NoReturn:
    """Call `do` and end this process; print an error for people to read."""
    try:
        do(*given)
        os._exit(0)
    except BaseException as error:
        os.write(2, ("template: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(1)


def _join_and_fork(
    order: dict[str, Any],
    descriptors: list[int],
    plan: dict[str, Any],
    script: calls.CallScript,
    plain_fork: tuple[int, ...],
) -> None:
    kinds = order["namespaces"]
    for kind, descriptor in zip(kinds, descriptors):  # the user namespace comes first
        calls.syscall("setns", descriptor, namespaces.FLAGS[kind])
    # os.fork has already updated the state of Python and libc, and two raw forks more change nothing of that.
    opener = calls.raw(*plain_fork)
    if opener > 0:
        os.waitpid(opener, 0)
    elif opener == 0 and calls.raw(*plain_fork) == 0:
        _or_explain(_become_tool, order, descriptors[len(kinds) :], plan, script)


def _become_tool(order: dict[str, Any], ends: Sequence[int], plan: dict[str, Any], script: calls.CallScript) -> None:
    """Become the process that runs the tool.

    `ends` are those of the request, stdout, stderr, the value, and the link to the guard; the doors of the call's
    control groups follow. The process enters the groups itself: to move another process, the kernel waits until no
    processor looks at the groups.
    """
    for end, number in zip(ends, _ENDS):
        os.dup2(end, number, number in (1, 2))
    doors = range(_LINK + 1, _LINK + 1 + len(ends) - len(_ENDS))
    for end, number in zip(ends[len(_ENDS) :], doors):
        os.dup2(end, number, False)
    isolation.close_from(doors.stop)
    while os.getppid() != _GUARD:  # until the opener has ended, it is the parent
        os.sched_yield()
    script.run()
    for door in doors:
        os.write(door, b"0")
        os.close(door)
    tool_process.run(plan, socket.socket(fileno=_LINK), ahead=order["ahead"])


def _say(link: socket.socket, content: dict[str, Any]) -> None:
    link.send(fast_json.write(content).encode("ascii"))


def _receive(link: socket.socket, room: bytearray) -> tuple[dict[str, Any], list[int]]:
    size, attached, _, _ = link.recvmsg_into([room], socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS))
    if not size:
        os._exit(0)
    descriptors: list[int] = []
    for _, kind, content in attached:
        if kind == socket.SCM_RIGHTS:
            descriptors += struct.unpack("%di" % (len(content) // 4), content)
    return fast_json.read(room[:size].decode("ascii")), descriptors


def _reap() -> None:
    """Reap processes that packages started and did not wait for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
