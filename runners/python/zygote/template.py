"""The template: an interpreter that imports an environment's packages once, and forks the processes that run tools.

Packages are foreign code, so this process is as little trusted as a tool. It never holds the engine's channel, never
puts up walls for others, and nothing it says is a measurement. The zygote forks it before anything foreign runs, and it
puts up its own walls first: a control group and limits of one call, a view of /proc without the zygote and the guards,
no capabilities, and the filter of tools, which here also allows setns. Only then it imports.

For each call a guard sends an order: descriptors of the guard's namespaces, the call's pipes, and a link to the guard.

    template ── fork ── joiner      enters the guard's user namespace first, which gives it the rights for the others
                          └─ fork ── opener     the first of ours in the guard's pid namespace; ends at once
                                       └─ fork ── the tool's process, now a child of the guard

The third fork is there because the kernel hands an orphan to the first process of its *parent's* pid namespace, which
for the opener would be the zygote. The tool's process gives up the rights it got, puts up what only a process itself
can put up (Landlock, the filter), and waits for the guard to verify it (see box/verification.py).

The template stops itself (SIGSTOP) after each order, and the zygote lets it go on for the next. So no thread, timer or
signal handler of a package runs while nothing is forked.

Messages on the control socket, each one packet of JSON: the zygote and the guards send {"preload"}, {"compile"} or
{"birth"}, each with a ticket. The template says {"standing"} once, and answers with {"done": ticket}, and what
became of the modules it was to import.
"""

from __future__ import annotations

import _socket as socket
import fcntl
import os
import struct

from box import call_isolation, fast_json, installed, isolation, pipes, verification
from box.isolation import IS_LINUX
from call import compiled, tool_process
from kernel import rlimits
from kernel.signals import signal
from zygote import boot, preloading

if IS_LINUX:
    from kernel import calls, capabilities, clone, landlock, mounts, seccomp
    from kernel.script import Script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_GUARD = 1
"""The pid of a guard in its own namespace."""
_FIRST_OWN = 64
"""Descriptors of our own are kept above the numbers that a call's pipes take."""
_LINK = pipes.FIRST_FREE
_ENDS = (pipes.REQUEST, 1, 2, pipes.VALUE, _LINK)
_MAX_MESSAGE = 1 << 18
_MAX_DESCRIPTORS = 32
_SHOWN_OF_PROC = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version")
_MOVE_FROM_DESCRIPTOR, _CLONE_TREE = 4, 1


class Started:
    """What the zygote holds of a template: its pid, the control socket, and what its packages print."""

    __slots__ = ("control", "errors", "pid")

    def __init__(self, pid: int, control: int, errors: int) -> None:
        self.pid = pid
        self.control = control
        self.errors = errors


def start(whole: dict[str, Any], doors: Sequence[int]) -> Started:
    """Fork the template of this box; only while this process still has the rights to give it a view of its own.

    `doors` are open files of its control group. OSError if the kernel has no process or descriptors for it.
    """
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
    return Started(pid, control, errors)


def _main(whole: dict[str, Any], control: socket.socket, errors: int, doors: Sequence[int]) -> None:
    way = _put_up_walls(whole, control, errors, doors)
    boot.prepare(whole)
    script, report = _prepare_children(whole["call"], doors=len(doors))
    _say(way, {"standing": report})
    _import(whole["installed"], whole["preload"], way)
    _serve(way, whole["call"], script)


def _put_up_walls(whole: dict[str, Any], control: socket.socket, errors: int, doors: Sequence[int]) -> socket.socket:
    """Stand behind the walls of foreign code; the control socket, as the only descriptor besides the standard ones."""
    box, call_plan = whole["box"], whole["call"]
    for door in doors:
        os.write(door, b"0")
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _hide_processes(whole)
    if not box.get("stands") and box["identity"] != box["user"] and "user" not in box["namespaces"]:
        isolation.become(box["user"])
    calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    way = _arrange(control, errors)
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
    return way


def _hide_processes(whole: dict[str, Any]) -> None:
    """Enter a mount namespace whose /proc shows no process but those of this one."""
    calls.syscall("unshare", clone.FLAGS["mount"])
    mounts.isolate_propagation()
    if not whole["box"].get("stands"):
        mounts.proc(options="hidepid=invisible")
        return
    # A container's /proc has masked places, so the kernel lets nobody mount another one. A few entries are enough.
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
    """Leave nothing open but the control socket and the pipe for what packages print as errors."""
    way = socket.socket(fileno=fcntl.fcntl(control.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN))
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number, False)
    os.dup2(errors, 2, False)
    os.closerange(3, way.fileno())
    isolation.close_from(way.fileno() + 1)
    return way


def _restrict(wanted: dict[str, Any] | None, folder: str) -> dict[str, object] | None:
    """Put up as much of Landlock as every call can share: its own folder is a mount that is not there yet. `folder` is
    one that this process may write to."""
    if not wanted:
        return None
    report = landlock.restrict([("/", landlock.READ_EXECUTE), ("/", landlock.READ_WRITE)], network=wanted["network"])
    return dict(report, is_shared=True) if verification.is_landlocked(folder) else None


def _prepare_children(plan: dict[str, Any], *, doors: int) -> tuple[Script, dict[str, object] | None]:
    """Work out, before foreign code runs, what each child does to stand behind its own walls."""
    script = Script(first_free=_LINK + 1 + doors)
    call_isolation.write_down_own(plan, script)
    return script, plan["restricted"]


def _import(where: Sequence[str], modules: list[str], way: socket.socket) -> None:
    """Enter the environment and import; from here on this process is foreign."""
    installed.enter(*where)
    _report_import(modules, way, ticket=0)
    for _ in preloading.rehearse_calls():
        pass
    _reap()
    _stop()


def _report_import(modules: list[str], way: socket.socket, *, ticket: int) -> None:
    _, failed, left_open = preloading.preload(modules)
    _reap()
    report = {"failed": failed, "left_open": left_open, "threads": preloading.threads()}
    _say(way, {"done": ticket, "imported": report})


def _serve(way: socket.socket, plan: dict[str, Any], script: Script) -> NoReturn:
    again = clone.written(())
    room = bytearray(_MAX_MESSAGE)
    while True:
        order, descriptors = _receive(way, room)
        if "preload" in order:
            _report_import(order["preload"], way, ticket=order["ticket"])
            preloading.keep_as_is()
        else:
            if "birth" in order:
                _bear(order["birth"], descriptors, plan, script, again)
            if "compile" in order:
                compiled.keep(order["compile"], order["path"])
                preloading.keep_as_is()
            _reap()
            _say(way, {"done": order["ticket"]})
        _reap()
        _stop()


def _bear(
    order: dict[str, Any], descriptors: list[int], plan: dict[str, Any], script: Script, again: tuple[int, ...]
) -> None:
    joiner = os.fork()
    if joiner == 0:
        try:
            _join_and_fork(order, descriptors, plan, script, again)
        finally:  # where the call was killed meanwhile, its namespaces take no process
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    os.waitpid(joiner, 0)


def _or_explain(do: Callable[..., None], *given: Any) -> NoReturn:
    """Do it, and end this process; what goes wrong is for people to read."""
    try:
        do(*given)
        os._exit(0)
    except BaseException as error:
        os.write(2, ("template: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(1)


def _join_and_fork(
    order: dict[str, Any], descriptors: list[int], plan: dict[str, Any], script: Script, again: tuple[int, ...]
) -> None:
    kinds = order["namespaces"]
    for kind, descriptor in zip(kinds, descriptors):  # the user namespace comes first
        calls.syscall("setns", descriptor, clone.FLAGS[kind])
    # Python and libc have prepared this process for being a fork; two more forks of it change nothing of that.
    opener = calls.raw(*again)
    if opener > 0:
        os.waitpid(opener, 0)
    elif opener == 0 and calls.raw(*again) == 0:
        _or_explain(_become_the_tool, order, descriptors[len(kinds) :], plan, script)


def _become_the_tool(order: dict[str, Any], ends: Sequence[int], plan: dict[str, Any], script: Script) -> None:
    """The ends are those of the request, stdout, stderr, the value, and the link to the guard; the doors of the call's
    control groups follow.

    It enters the groups itself: to move another process, the kernel waits until no processor looks at the groups.
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


def _say(way: socket.socket, content: dict[str, Any]) -> None:
    way.send(fast_json.write(content).encode("ascii"))


def _receive(way: socket.socket, room: bytearray) -> tuple[dict[str, Any], list[int]]:
    size, attached, _, _ = way.recvmsg_into([room], socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS))
    if not size:
        os._exit(0)
    descriptors: list[int] = []
    for _, kind, content in attached:
        if kind == socket.SCM_RIGHTS:
            descriptors += struct.unpack("%di" % (len(content) // 4), content)
    return fast_json.read(room[:size].decode("ascii")), descriptors


def _reap() -> None:
    """Reap what packages started and nothing waited for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
