"""The tool's own process, from its isolation to the end of the call.

This process is a fork of the guard, or a fork of a template that has joined the guard's namespaces (see
zygote/template.py). Either sends its number on the link, and waits until the guard has verified its isolation. Before
that the process reads no part of the call, and a fork of the guard runs no foreign code.
"""

from __future__ import annotations

import fcntl
import os
import resource

from box import isolation, pipes, verification, workdir
from call import call, preloading
from kernel import rlimits
from kernel.signals import signal, stop_listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any, NoReturn

_HIGH, _BELOW_THE_LIMIT = 1024, 4
GO, READY = b"go", b"ready"


def run(plan: dict[str, Any], link: socket, *, ahead: bool) -> NoReturn:
    """Become the tool's process, wait to be verified, wait for the call, run it, and end.

    Every page that is written after a fork is copied. So work that either the guard or this process could do is done
    here, because this process writes to most of those pages anyway.
    """
    os.setsid()
    if "pid" in plan["namespaces"]:
        stop_listening()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if not plan["namespaces"]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        isolation.die_with_parent(signal.SIGKILL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    value = _move_up(pipes.VALUE)
    _wait_for_verification(link)
    if ahead:
        call.rehearse("f")
    home = call.prepare()
    imports = plan.get("imports")
    if ahead and imports and imports["ahead"]:
        _import_ahead(imports, link)
        imports = None
    elif ahead:
        link.send(READY)
    link.close()
    lower, request = pipes.receive()
    isolation.own_its_files()  # not earlier: no process of the same user should reach one that waits for its call
    if lower:  # the control group counts the other limits of this call
        rlimits.lower(rlimits.compute({name: lower[name] for name in lower if name in plan["limits"]}, held=0))
    if plan["home"] and not plan["workplace"]:
        request["environment"].update(HOME=plan["home"], TMPDIR=os.path.join(plan["home"], workdir.TEMPORARY))
    if imports:
        _enter_environment(imports)
    call.run(request, value, home=home, gives_way=plan["is_counted"])


def _wait_for_verification(link: socket) -> None:
    """Let the guard read this process, which requires files of /proc that the process owns, until the guard says go.

    This process holds no request yet. A call that runs meanwhile cannot name it: that call has its own pid namespace.
    """
    isolation.own_its_files()
    link.send(verification.own_number().encode("ascii"))
    if link.recv(len(GO)) != GO:
        os._exit(0)
    isolation.own_its_files(from_now_on=False)


def _import_ahead(imports: dict[str, Any], link: socket) -> None:
    """Import before the call comes; the guard then holds this process until the request is there."""
    _enter_environment(imports)
    preloading.preload(imports["modules"])
    link.send(READY)
    if link.recv(len(GO)) != GO:
        os._exit(0)


def _enter_environment(imports: dict[str, Any]) -> None:
    """Enter the environment in this process, where no template did.

    Start hooks are foreign code, inside the isolation of the call and at its expense; a hook that ends Python ends the
    call. While no call has come, the guard watches this process.
    """
    try:
        preloading.enter(*imports["installed"])
    except SystemExit as stop:
        os._exit(stop.code & 0xFF if isinstance(stop.code, int) else int(stop.code is not None))


def _move_up(descriptor: int) -> int:
    """Move the value's pipe to a number that a tool does not close by counting up, and that no program inherits."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = _HIGH if soft == resource.RLIM_INFINITY else min(soft, _HIGH)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, limit - _BELOW_THE_LIMIT)
    os.close(descriptor)
    return moved
