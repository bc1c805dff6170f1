"""The guard: the first process of a call's own namespaces, between the zygote and the process that runs the tool.

It puts up the call's walls, forks the tool's process, waits for it, kills and reaps whatever the tool left running, and
tells the zygote in one record how the tool ended and what it used. The tool cannot touch it: the kernel shields the
first process of a pid namespace from signals of its own kind, and it is not dumpable, so nothing may trace it or read
its memory. That is why the tool is not itself the first process: it would be shielded from its own `SIGKILL`, and its
end could only be guessed at.

Two records go to the zygote, each a length and a JSON object: the walls, measured after the last of them is up and
before any foreign code runs, and the end. A wall that could not be put up is the first record, and the last.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import struct
import time

import call
import measure
from kernel import calls, capabilities, clone, landlock, loopback, mounts, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_RECORD = struct.Struct(">I")
_ASSIGNMENT = struct.Struct(">Q")
_REQUEST, _STATUS, _VALUE, _FIRST_FREE = 3, 4, 5, 6
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "processes": resource.RLIMIT_NPROC,
}


def fork(plan: dict[str, Any], pipes: Sequence[int], slot: Sequence[int], *, ahead: bool) -> int:
    """Fork a guard for one call; returns its pid to the zygote and never returns in the child."""
    outside = measure.namespaces()
    pid = clone.fork(plan["namespaces"])
    if pid:
        return pid
    try:
        _guard(plan, pipes, slot, outside, ahead=ahead)
    except BaseException as error:
        os.write(2, ("guard: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(70)


def assignment(limits: dict[str, int]) -> bytes:
    """What the zygote writes ahead of the request: the limits that one call may lower."""
    text = json.dumps(limits).encode()
    return _ASSIGNMENT.pack(len(text)) + text


def read_end(record: bytes) -> dict[str, Any]:
    """The guard's last record as fields of the `ended` message."""
    fields: dict[str, Any] = json.loads(record)
    return fields


def end_without_record(usage: tuple[int, resource.struct_rusage] | None) -> dict[str, Any]:
    """The same fields where the guard was killed together with the call: what the kernel told when it was reaped."""
    if usage is None:
        return dict.fromkeys(("exit_code", "signal", "cpu_s", "max_rss", "bytes_free", "inodes_free"))
    status, spent = usage
    cpu = spent.ru_utime + spent.ru_stime
    used = {"cpu_s": round(cpu, 6), "max_rss": spent.ru_maxrss * 1024, "bytes_free": None, "inodes_free": None}
    return dict(_ending(status), **used)


def _guard(
    plan: dict[str, Any], pipes: Sequence[int], slot: Sequence[int], outside: dict[str, str], *, ahead: bool
) -> None:
    for descriptor in slot:
        os.write(descriptor, b"0")
    _arrange(pipes)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        _put_up_walls(plan)
    except OSError as error:
        _tell({"fault": {"layer": plan.get("building", "namespaces"), "reason": str(error)}})
        os._exit(69)
    pid = os.fork()
    if pid == 0:
        _become_tool(plan, outside, ahead=ahead)
    for descriptor in (0, 1, 2, _REQUEST, _VALUE):
        os.close(descriptor)
    status, spent = _wait(pid)
    _end_the_rest(plan)
    everything = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = everything.ru_utime + everything.ru_stime
    _tell(dict(_ending(status), cpu_s=round(cpu, 6), max_rss=spent.ru_maxrss * 1024, **_room_left()))
    os._exit(0)


def _arrange(pipes: Sequence[int]) -> None:
    """The call's five pipes at fixed numbers, nothing else open: no descriptor of the zygote reaches the tool."""
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, 128) for end in pipes]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for end, number in zip(high, (_REQUEST, 1, 2, _VALUE, _STATUS)):
        os.dup2(end, number, number in (1, 2))
    os.closerange(_FIRST_FREE, max(high) + 1)
    calls.syscall("close_range", max(high) + 1, 0xFFFFFFFF, 0)


def _put_up_walls(plan: dict[str, Any]) -> None:
    """Each wall in the order in which it still permits the next; `building` names the one under way."""
    namespaces = plan["namespaces"]
    plan["building"] = "user_namespace"
    calls.prctl(_PR_SET_DUMPABLE, 1)
    if "user" in namespaces:
        clone.write_maps(plan["user"], plan["outside"])
    else:
        calls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        calls.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    plan["building"] = "mount_namespace"
    if "mount" in namespaces:
        _make_workplace(plan["workplace"])
        if "pid" in namespaces:
            mounts.proc()
    plan["building"] = "network_namespace"
    if "network" in namespaces:
        loopback.raise_loopback()
    if "uts" in namespaces:
        plan["building"] = "uts_namespace"
        calls.check(calls.libc.sethostname(b"sandbox", 7), "sethostname")
    plan["building"] = "no_new_privs"
    calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    calls.prctl(_PR_SET_DUMPABLE, 0)
    if plan["landlock"]:
        plan["building"] = "landlock"
        plan["landlock_in_force"] = _restrict_files(plan["landlock"])
    plan["building"] = "capabilities"
    capabilities.drop_all()
    if plan["filter"]:
        plan["building"] = "seccomp"
        seccomp.install(plan["filter"])


def _restrict_files(wanted: dict[str, Any]) -> dict[str, object] | None:
    rules = [(path, landlock.READ_EXECUTE) for path in wanted["execute"]]
    rules += [(path, landlock.READ_WRITE) for path in wanted["write"]]
    report = landlock.restrict(rules, network=wanted["network"])
    return report if report["abi"] else None


def _make_workplace(workplace: dict[str, Any]) -> None:
    os.umask(0o077)
    path = workplace["path"]
    flags = mounts.NOSUID | mounts.NODEV | mounts.NOEXEC
    mounts.tmpfs(path, size=workplace["size"], inodes=workplace["inodes"], flags=flags, mode="0700")
    for name in (".tmp", ".shm"):
        os.mkdir(path + "/" + name)
    os.chdir(path)


def _become_tool(plan: dict[str, Any], outside: dict[str, str], *, ahead: bool) -> None:
    """In the tool's process: the limits that count per process, the measurement, then the call itself."""
    os.setsid()
    calls.prctl(_PR_SET_DUMPABLE, 1)
    _raise_oom_score()
    if plan["cpus"]:
        os.sched_setaffinity(0, plan["cpus"])
    for name, value in plan["limits"].items():
        limit = value + (_data_bytes() if name == "data" else 0)
        resource.setrlimit(_LIMITS[name], (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    value = fcntl.fcntl(_VALUE, fcntl.F_DUPFD_CLOEXEC, plan["limits"]["open_files"] - 4)
    os.close(_VALUE)
    if ahead:
        call.rehearse()
    walls = measure.walls(plan, outside)
    missing = measure.missing(walls, plan["required"])
    if missing:
        _tell({"fault": {"layer": missing[0], "reason": "asked for, but not in force when measured"}})
        os._exit(69)
    _tell({"walls": walls, "cpu_s": round(time.process_time(), 6)})
    os.close(_STATUS)
    limits, request = _receive()
    os.close(_REQUEST)
    for name, limit in limits.items():
        resource.setrlimit(_LIMITS[name], (limit, limit))
    call.run(request, value)


def _raise_oom_score() -> None:
    """When memory runs out the tool goes, not its guard."""
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(descriptor, b"800")
    finally:
        os.close(descriptor)


def _data_bytes() -> int:
    """What the interpreter holds already, which is not the call's."""
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[5]) * resource.getpagesize()


def _receive() -> tuple[dict[str, int], dict[str, Any]]:
    """The call's own limits, then its request; nothing more will come."""
    (size,) = _ASSIGNMENT.unpack(_exactly(_ASSIGNMENT.size))
    limits = json.loads(_exactly(size))
    (size,) = _ASSIGNMENT.unpack(_exactly(_ASSIGNMENT.size))
    return limits, json.loads(_exactly(size))


def _exactly(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = os.read(_REQUEST, min(size - len(data), 1 << 20))
        if not more:
            os._exit(0)
        data += more
    return bytes(data)


def _wait(pid: int) -> tuple[int, resource.struct_rusage]:
    """Reap everything that ends until the tool's process does; its status and usage."""
    while True:
        ended, status, spent = os.wait4(-1, 0)
        if ended == pid:
            return status, spent


def _end_the_rest(plan: dict[str, Any]) -> None:
    """Kill what the tool left running, and wait until it is gone."""
    if "pid" in plan["namespaces"]:
        _kill_everything()
        return
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and _kill_descendants():
        time.sleep(0.001)


def _kill_everything() -> None:
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait4(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def _kill_descendants() -> bool:
    """Without a pid namespace: we are the subreaper, so every descendant comes to be our child as its parents die."""
    path = "/proc/%d/task/%d/children" % (os.getpid(), os.getpid())
    try:
        with open(path) as children:
            for pid in children.read().split():
                os.kill(int(pid), signal.SIGKILL)
        os.wait4(-1, 0)
    except OSError as error:
        return error.errno != errno.ECHILD and error.errno != errno.ENOENT
    return True


def _ending(status: int) -> dict[str, int | None]:
    if os.WIFSIGNALED(status):
        return {"exit_code": None, "signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status), "signal": None}


def _room_left() -> dict[str, int]:
    """What is left of the call's private files, seen from outside of the tool's process."""
    disk = os.statvfs(".")
    return {"bytes_free": disk.f_bavail * disk.f_frsize, "inodes_free": disk.f_favail}


def _tell(record: dict[str, Any]) -> None:
    data = json.dumps(record).encode("ascii")
    os.write(_STATUS, _RECORD.pack(len(data)) + data)
