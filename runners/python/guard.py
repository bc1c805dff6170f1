"""The guard: the first process of a call's own namespaces, between the zygote and the process that runs the tool.

It puts up the call's walls, forks the tool's process, which finds them around itself before it runs a tool (see
findings.py), waits for it, kills and reaps whatever the tool left running, sends on what it left in its folder, and
tells the zygote in one record how the tool ended and what it used. The kernel shields the first process of a pid
namespace from signals of its own kind, and the guard is not dumpable, so the tool can neither signal nor trace it, nor
read its memory. (It has the same user, so the tool may lower its limits: that ends the tool's own call, and no other.)
That is why the tool is not itself the first process: it would be shielded from its own `SIGKILL`, and its end could
only be guessed at. Where a call has no such namespace, a Landlock domain of the tool's own keeps it from signalling its
guard, on a kernel that has that; on others the tool can stop it, and its call ends with the box.

Three records go to the zygote, each a length and a JSON object: the walls, measured after the last of them is up and
before any foreign code runs; what it took to get so far; and the end. Of these the tool's process tells the first two.
A wall that could not be put up, or was not found, is the first record, and the last.

A call is ended by killing its guard, where that kills the pid namespace. Where there is none, the guard is told to end
it (SIGTERM), and does not listen before there is something to end. Where there is one, a guard can be told so as well,
if what the tool has left until then is wanted. The tool can send it that signal, too: who sent it is asked of the
kernel, to whom nobody outside of the namespace has a number there.
"""

from __future__ import annotations

import os
import resource
import select

import call_pipes as pipes
import call_walls
import collecting
import documents
import egress
import ending
import findings
import tool
import walls
import workplace
from findings import Found
from signals import HEARD, signal, stop_listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_BROKEN, _FAULT = 70, 69
_TIDYING_S = 0.5
"""So much of the end of a call may go into removing what it left in a folder of the host, which nobody limits."""
_NOBODY_HERE = 0
_FIELDS = ("exit_code", "signal", "cpu_s", "max_rss", "bytes_free", "inodes_free")
_END = b'{"exit_code": %s, "signal": %s, "cpu_s": %.6f, "max_rss": %d, "bytes_free": %s, "inodes_free": %s}'
"""The last record. What is written with an encoder dirties forty pages more, of which each guard must have a copy."""


def fork(plan: dict[str, Any], doors: Sequence[int], *, ahead: bool, is_vacant: bool = False) -> int:
    """Fork a guard for one call; returns its pid to the zygote and never returns in the child. A *vacant* one puts up
    the walls now, and forks the tool's process when the request has come."""
    if not is_first(plan):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = walls.fork(plan)
    if pid:
        if not is_first(plan):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return pid
    try:
        _guard(plan, doors, ahead=ahead, is_vacant=is_vacant)
    except BaseException as error:
        os.write(2, ("guard: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(_BROKEN)


def rehearse(plan: dict[str, Any]) -> None:
    """Work out in the zygote what guards tell, for what that takes to be made by then."""
    findings.rehearse(plan)
    _describe_end(plan, 0, max_rss=0)


def is_first(plan: dict[str, Any]) -> bool:
    """Whether a guard is the first process of a pid namespace, so that all of its call dies with it."""
    return "pid" in plan["namespaces"]


def kill(pid: int, plan: dict[str, Any]) -> None:
    """End the call of that guard."""
    try:
        os.kill(pid, signal.SIGKILL if is_first(plan) else signal.SIGTERM)
    except ProcessLookupError:
        pass


def stop(pid: int) -> None:
    """Have that guard end its call and send what the tool has left; one that is killed later on sends no more."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def read_end(record: bytes) -> dict[str, Any]:
    """The guard's last record as fields of the `ended` message; those of no end for a wall that failed."""
    fields: dict[str, Any] = documents.read(record.decode("ascii"))
    return fields


def read_spent(record: bytes) -> tuple[float, list[Any] | None]:
    """The processor time a child had used before it got its call, and what there is to remember of its walls."""
    told = documents.read(record.decode("ascii"))
    return float(told["cpu_s"]), told.get("said")


def end_without_record(usage: tuple[int, resource.struct_rusage] | None) -> dict[str, Any]:
    """The same fields where the guard was killed together with the call: what the kernel told when it was reaped."""
    if usage is None:
        return dict.fromkeys(_FIELDS)
    status, spent = usage
    cpu = spent.ru_utime + spent.ru_stime
    return dict(zip(_FIELDS, (*_ending(status), round(cpu, 6), spent.ru_maxrss * 1024, None, None)))


def _guard(plan: dict[str, Any], doors: Sequence[int], *, ahead: bool, is_vacant: bool) -> NoReturn:
    _go_where_it_counts(plan, doors)
    if not is_first(plan):
        stop_listening()
    restricted = _put_up_walls(plan)
    found = Found(plan, restricted)
    if is_first(plan):
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    if is_vacant:
        _await_request()
    pid = _fork_the_tool(plan)
    if pid == 0:
        call_walls.close_off(plan, restricted)
        tool.run(plan, found, ahead=ahead)
    if not is_first(plan):
        _listen_for_the_end(pid)
    os.closerange(0, pipes.STATUS)
    os.close(pipes.VALUE)
    status, spent = _wait_or_be_told(pid) if is_first(plan) else _wait(pid)
    _end_the_rest(plan, pid)
    if not found.tell_if_untold():
        _leave(plan)
    end = _describe_end(plan, status, max_rss=spent.ru_maxrss)  # before there is more room than the tool had
    if plan["outputs"]:
        collecting.collect(plan["outputs"], pipes.FILES)
    _remove_workplace(plan, within_s=_TIDYING_S)
    pipes.tell(end)
    _remove_workplace(plan)
    os._exit(0)


def _go_where_it_counts(plan: dict[str, Any], doors: Sequence[int]) -> None:
    """Into the call's control groups, and to the engine's proxy. This is before its pipes are in their places, which
    they must be for anything to be told."""
    try:
        _enter_groups(doors)
        if plan.get("egress"):
            plan["label"] = egress.hand_over(**plan["egress"])
    except walls.WallFault as fault:
        pipes.arrange(plan["handed"])
        _refuse(plan, fault)


def _enter_groups(doors: Sequence[int]) -> None:
    try:
        for door in doors:
            os.write(door, b"0")
    except OSError as error:
        raise walls.WallFault("cgroup", "the call's group cannot be entered: %s" % error) from error


def _put_up_walls(plan: dict[str, Any]) -> dict[str, object] | None:
    """All of them; what Landlock restricts, if it does. Where one cannot be put up, this is the end."""
    try:
        return call_walls.put_up(plan)
    except walls.WallFault as fault:
        _refuse(plan, fault)


def _await_request() -> None:
    """Until some of it is there; this is the end where none will come."""
    poll = select.poll()
    poll.register(pipes.REQUEST, select.POLLIN)
    ((_, seen),) = poll.poll()
    if not seen & select.POLLIN:
        os._exit(0)


def _fork_the_tool(plan: dict[str, Any]) -> int:
    try:
        return os.fork()
    except OSError as error:
        _refuse(plan, walls.WallFault("processes", str(error)))


def _refuse(plan: dict[str, Any], fault: walls.WallFault) -> NoReturn:
    pipes.tell(findings.describe_fault(fault))
    _leave(plan)


def _leave(plan: dict[str, Any]) -> NoReturn:
    """A wall is missing, and that has been told."""
    _remove_workplace(plan)
    os._exit(_FAULT)


def _describe_end(plan: dict[str, Any], status: int, *, max_rss: int) -> bytes:
    """The last record."""
    everything = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = everything.ru_utime + everything.ru_stime
    code, number = _ending(status)
    size, inodes = workplace.room_left(plan) if plan["workplace"] else (None, None)
    return _END % (_written(code), _written(number), cpu, max_rss * 1024, _written(size), _written(inodes))


def _listen_for_the_end(pid: int) -> None:
    """From now on, being told to end, once or again, is to kill the tool. It may not have a group of its own yet."""

    def end(*_: object) -> None:
        ending.end_process(pid)
        ending.end_group(pid)

    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _wait(pid: int) -> tuple[int, resource.struct_rusage]:
    """Reap everything that ends until the tool's process does; its status and usage."""
    while True:
        ended, status, spent = os.wait4(-1, 0)
        if ended == pid:
            return status, spent


def _wait_or_be_told(pid: int) -> tuple[int, resource.struct_rusage]:
    """The same, and kill the tool's process when the zygote says so."""
    while True:
        heard = signal.sigwaitinfo(HEARD)
        if heard.si_signo == signal.SIGTERM:
            if (heard.si_pid, heard.si_code) == (_NOBODY_HERE, 0):  # sent by kill(2), from outside
                ending.end_process(pid)
            continue
        ended, status, spent = os.wait4(-1, os.WNOHANG)
        while ended:
            if ended == pid:
                return status, spent
            ended, status, spent = os.wait4(-1, os.WNOHANG)


def _end_the_rest(plan: dict[str, Any], pid: int) -> None:
    """Kill what the tool left running, and wait until it is gone."""
    if is_first(plan):
        _kill_everything()
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ending.end_group(pid)
    if not _has_no_children():
        ending.end_descendants()


def _remove_workplace(plan: dict[str, Any], *, within_s: float = float("inf")) -> None:
    if plan["home"] and not plan["workplace"]:
        workplace.remove(plan["home"], within_s=within_s)


def _kill_everything() -> None:
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait4(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def _has_no_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def _ending(status: int) -> tuple[int | None, int | None]:
    """The exit code, or the signal."""
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def _written(number: int | None) -> bytes:
    return b"null" if number is None else b"%d" % number
