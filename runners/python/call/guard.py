"""The guard: the first process of a call's own namespaces, between the zygote and the process that runs the tool.

A guard sets up the isolation of the call. The tool's process is then its own fork or, where an environment's packages
were imported ahead, a fork of the template that joins the guard's namespaces (see zygote/template.py). Either way the
guard verifies the isolation of that process from outside before it lets the process read its request (see
box/verification.py), waits for its end, kills and reaps the processes that the tool left, sends the files that the tool
left, and reports to the zygote how the tool ended, and its usage.

No foreign code ever runs in a guard. The kernel shields the first process of a pid namespace from signals of processes
inside, and the guard is not dumpable, so the tool can neither signal nor trace it, nor read its memory. (Both have the
same user, so the tool may lower the guard's limits: that ends the tool's own call, and no other.) If the tool were
itself the first process, the kernel would shield it from its own `SIGKILL`, and nothing could tell how it ended. Where
a call has no such namespace, a Landlock domain of the tool's process keeps it from signalling its guard, if the kernel
supports that. Otherwise the tool can stop its guard, and its call ends with the box.

Three records go to the zygote, each a length and a JSON object: the isolation; the processor time that the tool's
process used before its call; and the end. If a layer is missing, the first record says so, and is the last.

The zygote ends a call by killing its guard, where that kills the pid namespace. Without that namespace, the zygote
sends SIGTERM, which the guard blocks until there is a process to end. With it, SIGTERM makes a guard kill the tool,
send the files and report the end: the last record holds counters that nothing can read once the namespaces are gone.
The tool can send SIGTERM too, so the guard asks the kernel for the sender: a process outside of the namespace has no
number there.
"""

from __future__ import annotations

import _socket as socket
import os
import resource
import select
import struct

from box import call_isolation, egress, fast_json, isolation, pipes, processes, verification, workdir
from call import files, preloading, tool_process
from kernel import rlimits
from kernel.signals import HEARD, signal, stop_listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_BROKEN, _FAULT = 70, 69
_TIDYING_S = 0.5
"""How long the end of a call may wait for the removal of a folder of the host, whose size has no limit."""
_SENT_FROM_OUTSIDE = 0
_NUMBER_SIZE = 16
ENVIRONMENT = "environment"
"""The layer of a fault in a process that had imported an environment's packages."""
TURN, VERIFIED = struct.Struct(">Q"), b"v"
"""Words of the zygote to a guard whose process comes from the template: the ticket for its order, when it is its turn;
and that no process exists but the verified ones."""


def fork(plan: dict[str, Any], doors: Sequence[int], *, ahead: bool, half_started: bool = False) -> int:
    """Fork a guard for one call; return its pid in the zygote, and never return in the child.

    A *half-started* guard sets up the isolation now, and forks the tool's process when the request has come.
    """
    if not is_first(plan):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = isolation.fork(plan)
    if pid:
        if not is_first(plan):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return pid
    try:
        _guard(plan, doors, ahead=ahead, half_started=half_started)
    except BaseException as error:
        os.write(2, ("guard: %s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(_BROKEN)


def rehearse(plan: dict[str, Any]) -> None:
    """Make a guard's records once in the zygote, so that all guards share the memory that this takes."""
    verification.rehearse(plan)
    pipes.describe_end(plan, 0, max_rss=0)


def is_first(plan: dict[str, Any]) -> bool:
    """Whether a guard is the first process of a pid namespace, so that all of its call dies with it."""
    return "pid" in plan["namespaces"]


def kill(pid: int, plan: dict[str, Any]) -> None:
    """End the call of a guard."""
    try:
        os.kill(pid, signal.SIGKILL if is_first(plan) else signal.SIGTERM)
    except ProcessLookupError:
        pass


def stop(pid: int) -> None:
    """Have a guard end its call, send the files and report the end; `kill` cuts that short."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def _guard(plan: dict[str, Any], doors: Sequence[int], *, ahead: bool, half_started: bool) -> NoReturn:
    _enter_groups_and_egress(plan, doors)
    if not is_first(plan):
        stop_listening()
    restricted = _isolate(plan)
    if is_first(plan):
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    own = verification.GuardFacts(plan, restricted)
    if plan.get("template"):
        pid = _receive_from_template(plan, own, ahead=ahead)
    else:
        if half_started:
            _await_request()
        pid = _fork_and_verify(plan, own, ahead=ahead)
    status, usage = _wait_or_end(pid) if is_first(plan) else _wait(pid)
    _end_the_rest(plan, pid)
    # Collecting removes an empty folder, so the free space is measured before.
    end = pipes.describe_end(plan, status, max_rss=usage.ru_maxrss)
    if plan["outputs"]:
        files.collect(plan["outputs"], pipes.FILES)
    _remove_workplace(plan, within_s=_TIDYING_S)
    pipes.send_records(end)
    _remove_workplace(plan)
    os._exit(0)


def _fork_and_verify(plan: dict[str, Any], own: verification.GuardFacts, *, ahead: bool) -> int:
    """Fork the tool's process, verify it and let it continue; return its pid.

    A process that waits for its call first prepares itself, and the usage of that is not the call's. If the process
    died before it could be verified, the guard describes itself, because both have the same isolation.
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
            subject = verification.ProcessRef(verification.OWN, os.getpid())
        record, said = verification.verify(plan, own, subject)
    except isolation.IsolationFault as fault:
        processes.end_process(pid)
        _refuse(plan, fault)
    _let_continue(link)
    if not ahead:
        pipes.send_records(record, verification.describe_spent(plan, pid, said))
        return pid
    pipes.send_records(record)
    preloading.await_word(link, pid, within_s=imports["wall_s"] if imports and imports_ahead else None)
    if imports_ahead and not preloading.is_alone(subject, guard=own.number):
        processes.end_process(pid)
        return pid
    pipes.send_records(verification.describe_spent(plan, pid, said))
    if imports_ahead:
        preloading.hold_until_called(subject)
        _let_continue(link)
    return pid


def _receive_from_template(plan: dict[str, Any], own: verification.GuardFacts, *, ahead: bool) -> int:
    """Have the template fork the tool's process, verify the process and let it continue; return its pid.

    The process has imported packages, so every fault of the process is theirs. A guard prepares everything before its
    turn, because a call may wait by then.
    """
    link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    order = _ForkOrder(plan, theirs.fileno(), ahead=ahead)
    wanted = rlimits.of_plan(plan)
    (ticket,) = TURN.unpack(_await(TURN.size))
    try:
        order.send(ticket)
    except OSError as error:
        _blame_environment(plan, "the template accepts no order: %s" % error)
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
    except isolation.IsolationFault as fault:
        _blame_environment(plan, "%s: %s" % (fault.layer, fault.reason))
    except (OSError, ValueError) as error:
        _blame_environment(plan, "the call's process cannot be limited: %s" % error)
    pipes.send_records(record)
    _await(len(VERIFIED))
    elsewhere = verification.cpu_seconds(subject.pid)  # until now, the template's control group counted it
    _let_continue(link)
    if ahead:
        preloading.await_word(link, subject.pid)
    pipes.send_records(verification.describe_spent(plan, subject.pid, said, elsewhere=elsewhere))
    return subject.pid


class _ForkOrder:
    """An order to the template: the namespaces for the process to join, its pipes, and its control groups' doors."""

    def __init__(self, plan: dict[str, Any], link: int, *, ahead: bool) -> None:
        ends = (pipes.REQUEST, 1, 2, pipes.VALUE, link)
        self.allowed = {verification.name_of(end) for end in ends}
        """The names of all files that the process may have open."""
        kinds, doors = plan["namespaces"], pipes.kept_doors(plan)
        self._given = [*verification.open_namespaces(kinds), *doors]
        sent = [*self._given[: len(kinds)], *ends, *doors]
        self._rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(sent), *sent))]
        self._birth = fast_json.write({"namespaces": kinds, "ahead": ahead}).encode("ascii")
        self._template = socket.socket(fileno=pipes.TEMPLATE)

    def send(self, ticket: int) -> None:
        """Send the order, and close the descriptors that only the template needs."""
        self._template.sendmsg([b'{"ticket":%d,"birth":%s}' % (ticket, self._birth)], self._rights)
        self._template.close()
        for descriptor in self._given:
            os.close(descriptor)


def _await(size: int) -> bytes:
    """Wait for a word of the zygote; end without one."""
    word = os.read(pipes.STATUS, size)
    if len(word) < size:
        os._exit(0)
    return word


def _blame_environment(plan: dict[str, Any], reason: str) -> NoReturn:
    _refuse(plan, isolation.IsolationFault(ENVIRONMENT, reason))


def _close_the_tools_pipes(*, keeps_request: bool = False) -> None:
    os.closerange(0, pipes.REQUEST if keeps_request else pipes.STATUS)
    os.close(pipes.VALUE)


def _let_continue(link: socket.socket) -> None:
    try:
        link.send(tool_process.GO)
    except OSError:  # the process was killed meanwhile
        return


def _enter_groups_and_egress(plan: dict[str, Any], doors: Sequence[int]) -> None:
    """Enter the call's control groups, and hand its listening socket to the engine's proxy."""
    try:
        _enter_groups(doors)
        if plan.get("egress"):
            plan["label"] = egress.hand_over(**plan["egress"])
    except isolation.IsolationFault as fault:
        pipes.arrange(plan["handed"])  # the record needs its pipe at the agreed number
        _refuse(plan, fault)


def _enter_groups(doors: Sequence[int]) -> None:
    try:
        for door in doors:
            os.write(door, b"0")
    except OSError as error:
        raise isolation.IsolationFault("cgroup", "the call's group cannot be entered: %s" % error) from error


def _isolate(plan: dict[str, Any]) -> dict[str, object] | None:
    """Set up the isolation and return Landlock's report, if any; end if a layer fails."""
    try:
        return call_isolation.set_up(plan)
    except isolation.IsolationFault as fault:
        _refuse(plan, fault)


def _await_request() -> None:
    """Wait for the first bytes of the request; end if none will come."""
    poll = select.poll()
    poll.register(pipes.REQUEST, select.POLLIN)
    ((_, seen),) = poll.poll()
    if not seen & select.POLLIN:
        os._exit(0)


def _fork_the_tool(plan: dict[str, Any]) -> int:
    try:
        return os.fork()
    except OSError as error:
        _refuse(plan, isolation.IsolationFault("processes", str(error)))


def _refuse(plan: dict[str, Any], fault: isolation.IsolationFault) -> NoReturn:
    pipes.send_records(verification.describe_fault(fault))
    _remove_workplace(plan)
    os._exit(_FAULT)


def _listen_for_the_end(pid: int) -> None:
    """Kill the tool on every SIGTERM from now on; the tool may not have its own process group yet."""

    def end(*_: object) -> None:
        processes.end_process(pid)
        processes.end_group(pid)

    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _wait(pid: int) -> tuple[int, resource.struct_rusage]:
    """Reap every process that ends until the tool's process does; return its status and usage."""
    while True:
        ended, status, usage = os.wait4(-1, 0)
        if ended == pid:
            return status, usage


def _wait_or_end(pid: int) -> tuple[int, resource.struct_rusage]:
    """Wait in the same way, and kill the tool's process when the zygote sends SIGTERM."""
    while True:
        heard = signal.sigwaitinfo(HEARD)
        if heard.si_signo == signal.SIGTERM:
            if (heard.si_pid, heard.si_code) == (_SENT_FROM_OUTSIDE, 0):  # by kill(2), outside of the namespace
                processes.end_process(pid)
            continue
        ended, status, usage = os.wait4(-1, os.WNOHANG)
        while ended:
            if ended == pid:
                return status, usage
            ended, status, usage = os.wait4(-1, os.WNOHANG)


def _end_the_rest(plan: dict[str, Any], pid: int) -> None:
    """Kill the processes that the tool left, and wait until they are gone."""
    if is_first(plan):
        _kill_everything()
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    processes.end_group(pid)
    if _has_children():
        processes.end_descendants()


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


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
