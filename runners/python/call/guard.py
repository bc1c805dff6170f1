"""The guard: the first process of a call's own namespaces, between the zygote and the process that runs the tool.

A guard puts up the call's walls. The tool's process is then its own fork or, where an environment's packages were
imported ahead, a fork of the template that joins the guard's namespaces (see zygote/template.py). Either way the guard
verifies the walls of that process from outside before it lets the process read its request (see verification.py), waits
for its end, kills and reaps whatever the tool left running, sends on what the tool left in its folder, and reports to
the zygote how the tool ended and what it used.

No foreign code ever runs in a guard. The kernel shields the first process of a pid namespace from signals of its own
kind, and the guard is not dumpable, so the tool can neither signal nor trace it, nor read its memory. (Both have the
same user, so the tool may lower the guard's limits: that ends the tool's own call, and no other.) If the tool were
itself the first process, it would be shielded from its own `SIGKILL`, and its end could only be guessed at. Where a
call has no such namespace, a Landlock domain of the tool's own keeps it from signalling its guard, on a kernel that has
that; on others the tool can stop it, and its call ends with the box.

Three records go to the zygote, each a length and a JSON object: the walls; the processor time that the tool's process
used before its call; and the end. If a wall is missing, the first record says so, and is the last.

The zygote ends a call by killing its guard, where that kills the pid namespace. Where there is none, the zygote sends
SIGTERM, which the guard blocks until there is something to end. Where there is one, SIGTERM makes a guard kill the tool
and send what it left. The tool can send SIGTERM too, so the guard asks the kernel for the sender: a process outside of
the namespace has no number there.
"""

from __future__ import annotations

import _socket as socket
import os
import resource
import select
import struct

from box import call_isolation, egress, fast_json, isolation, kill_tree, pipes, records, verification, workdir
from call import ahead_import, output_files, tool_process
from kernel import rlimits
from kernel.signals import HEARD, signal, stop_listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_BROKEN, _FAULT = 70, 69
_TIDYING_S = 0.5
"""So much of the end of a call may go into removing what it left in a folder of the host, which nobody limits."""
_NOBODY_HERE = 0
_NUMBER_SIZE = 16
ENVIRONMENT = "environment"
"""The layer of a fault in a process that had imported an environment's packages."""
TURN, VERIFIED = struct.Struct(">Q"), b"v"
"""What the zygote sends to a guard whose process comes from the template: its turn, as a ticket for its order, and that
no other process exists."""


def fork(plan: dict[str, Any], doors: Sequence[int], *, ahead: bool, is_vacant: bool = False) -> int:
    """Fork a guard for one call; returns its pid to the zygote and never returns in the child. A *vacant* one puts up
    the walls now, and forks the tool's process when the request has come."""
    if not is_first(plan):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = isolation.fork(plan)
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
    verification.rehearse(plan)
    records.describe_end(plan, 0, max_rss=0)


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


def _guard(plan: dict[str, Any], doors: Sequence[int], *, ahead: bool, is_vacant: bool) -> NoReturn:
    _go_where_it_counts(plan, doors)
    if not is_first(plan):
        stop_listening()
    restricted = _put_up_walls(plan)
    if is_first(plan):
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    own = verification.Own(plan, restricted)
    if plan.get("template"):
        pid = _receive_from_template(plan, own, ahead=ahead)
    else:
        if is_vacant:
            _await_request()
        pid = _fork_and_verify(plan, own, ahead=ahead)
    status, spent = _wait_or_be_told(pid) if is_first(plan) else _wait(pid)
    _end_the_rest(plan, pid)
    end = records.describe_end(plan, status, max_rss=spent.ru_maxrss)  # before there is more room than the tool had
    if plan["outputs"]:
        output_files.collect(plan["outputs"], pipes.FILES)
    _remove_workplace(plan, within_s=_TIDYING_S)
    pipes.tell(end)
    _remove_workplace(plan)
    os._exit(0)


def _fork_and_verify(plan: dict[str, Any], own: verification.Own, *, ahead: bool) -> int:
    """Fork the tool's process, verify it and let it go on; its pid.

    A process that waits for its call first prepares itself, and what that takes is not the call's. If the process died
    before it could be verified, the guard describes itself, because both have the same walls.
    """
    link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = _fork_the_tool(plan)
    if pid == 0:
        link.close()
        os.close(pipes.FILES)
        os.close(pipes.STATUS)
        call_isolation.close_off(plan, own.restricted)
        tool_process.run(plan, theirs, ahead=ahead)
    theirs.close()
    if not is_first(plan):
        _listen_for_the_end(pid)
    imports = plan.get("imports") if ahead else None
    imports_ahead = bool(imports and imports["ahead"])
    _close_the_tools_pipes(keeps_request=imports_ahead)
    number = link.recv(_NUMBER_SIZE).decode("ascii")
    try:
        if number:
            subject = verification.subject_of(number, guard=own.number)
        else:
            subject = verification.Subject(verification.OWN, os.getpid())
        record, said = verification.verify(plan, own, subject)
    except isolation.WallFault as fault:
        kill_tree.end_process(pid)
        _refuse(plan, fault)
    _let_go_on(link)
    if not ahead:
        pipes.tell(record, verification.describe_spent(plan, pid, said))
        return pid
    pipes.tell(record)
    ahead_import.await_word(link, pid, within_s=imports["wall_s"] if imports and imports_ahead else None)
    if imports_ahead and not ahead_import.is_alone(subject):
        kill_tree.end_process(pid)
        return pid
    pipes.tell(verification.describe_spent(plan, pid, said))
    if imports_ahead:
        ahead_import.hold_until_called(subject)
        _let_go_on(link)
    return pid


def _receive_from_template(plan: dict[str, Any], own: verification.Own, *, ahead: bool) -> int:
    """Have the template fork the tool's process, verify that and let it go on; its pid.

    The process has imported packages, so whatever is wrong with it is their doing. A guard prepares everything before
    its turn, because a call may wait by then.
    """
    link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    order = _Order(plan, theirs.fileno(), ahead=ahead)
    wanted = rlimits.of_plan(plan)
    (ticket,) = TURN.unpack(_await(TURN.size))
    try:
        order.send(ticket)
    except OSError as error:
        _blame_environment(plan, "the template takes no orders: %s" % error)
    theirs.close()
    _close_the_tools_pipes()
    number = link.recv(_NUMBER_SIZE).decode("ascii", "replace")
    try:
        subject = verification.subject_of(number, guard=own.number)
        verification.check_descriptors(subject, order.allowed)
        verification.check_mappings(subject, plan["workplace"]["path"])
        rlimits.impose(subject.pid, wanted)
        if plan["cpus"]:
            os.sched_setaffinity(subject.pid, plan["cpus"])
        record, said = verification.verify(plan, own, subject)
    except isolation.WallFault as fault:
        _blame_environment(plan, "%s: %s" % (fault.layer, fault.reason))
    except (OSError, ValueError) as error:
        _blame_environment(plan, "the call's process cannot be limited: %s" % error)
    pipes.tell(record)
    _await(len(VERIFIED))
    elsewhere = verification.cpu_seconds(subject.pid)  # until now, the template's control group counted it
    _let_go_on(link)
    if ahead:
        ahead_import.await_word(link, subject.pid)
    pipes.tell(verification.describe_spent(plan, subject.pid, said, elsewhere=elsewhere))
    return subject.pid


class _Order:
    """An order to the template: the namespaces that the process is to join, its ends, and the doors of the call's
    control groups."""

    def __init__(self, plan: dict[str, Any], link: int, *, ahead: bool) -> None:
        ends = (pipes.REQUEST, 1, 2, pipes.VALUE, link)
        self.allowed = {verification.name_of(end) for end in ends}
        """The names of all that the process may have open."""
        kinds, doors = plan["namespaces"], pipes.kept_doors(plan)
        self._given = [*verification.open_namespaces(kinds), *doors]
        sent = [*self._given[: len(kinds)], *ends, *doors]
        self._rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(sent), *sent))]
        self._birth = fast_json.write({"namespaces": kinds, "ahead": ahead}).encode("ascii")
        self._way = socket.socket(fileno=pipes.TEMPLATE)

    def send(self, ticket: int) -> None:
        """Send it, and close what only the template needs."""
        self._way.sendmsg([b'{"ticket":%d,"birth":%s}' % (ticket, self._birth)], self._rights)
        self._way.close()
        for descriptor in self._given:
            os.close(descriptor)


def _await(size: int) -> bytes:
    """Wait for the zygote; one that is gone wants nothing any more."""
    word = os.read(pipes.STATUS, size)
    if len(word) < size:
        os._exit(0)
    return word


def _blame_environment(plan: dict[str, Any], reason: str) -> NoReturn:
    _refuse(plan, isolation.WallFault(ENVIRONMENT, reason))


def _close_the_tools_pipes(*, keeps_request: bool = False) -> None:
    os.closerange(0, pipes.REQUEST if keeps_request else pipes.STATUS)
    os.close(pipes.VALUE)


def _let_go_on(link: socket.socket) -> None:
    """The process may have been killed meanwhile."""
    try:
        link.send(tool_process.GO)
    except OSError:
        return


def _go_where_it_counts(plan: dict[str, Any], doors: Sequence[int]) -> None:
    """Into the call's control groups, and to the engine's proxy. This is before its pipes are in their places, which
    they must be for anything to be told."""
    try:
        _enter_groups(doors)
        if plan.get("egress"):
            plan["label"] = egress.hand_over(**plan["egress"])
    except isolation.WallFault as fault:
        pipes.arrange(plan["handed"])
        _refuse(plan, fault)


def _enter_groups(doors: Sequence[int]) -> None:
    try:
        for door in doors:
            os.write(door, b"0")
    except OSError as error:
        raise isolation.WallFault("cgroup", "the call's group cannot be entered: %s" % error) from error


def _put_up_walls(plan: dict[str, Any]) -> dict[str, object] | None:
    """All of them; what Landlock restricts, if it does. Where one cannot be put up, this is the end."""
    try:
        return call_isolation.put_up(plan)
    except isolation.WallFault as fault:
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
        _refuse(plan, isolation.WallFault("processes", str(error)))


def _refuse(plan: dict[str, Any], fault: isolation.WallFault) -> NoReturn:
    pipes.tell(verification.describe_fault(fault))
    _leave(plan)


def _leave(plan: dict[str, Any]) -> NoReturn:
    """A wall is missing, and that has been told."""
    _remove_workplace(plan)
    os._exit(_FAULT)


def _listen_for_the_end(pid: int) -> None:
    """From now on, being told to end, once or again, is to kill the tool. It may not have a group of its own yet."""

    def end(*_: object) -> None:
        kill_tree.end_process(pid)
        kill_tree.end_group(pid)

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
                kill_tree.end_process(pid)
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
    kill_tree.end_group(pid)
    if not _has_no_children():
        kill_tree.end_descendants()


def _remove_workplace(plan: dict[str, Any], *, within_s: float = float("inf")) -> None:
    if plan["home"] and not plan["workplace"]:
        workdir.remove(plan["home"], within_s=within_s)


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
