"""The only network of a call that may reach public addresses: a listening socket, handed to the engine.

The call's guard makes the socket before the isolation, in the call's own network namespace, where the socket belongs
whichever process holds it. So the engine answers the call's connections, and no code of ours runs in the box for that.
The guard sends two more things: a descriptor of its own process, by which the kernel tells the engine of its end, and a
label, which identifies this call's isolation. The socket to the engine closes with the zygote's other descriptors
before the tool's process is forked. A runner that could not inherit that socket connects to the engine by path before
any foreign code runs; after that the engine no longer listens there.
"""

from __future__ import annotations

import _socket as socket
import errno
import os
import struct
import time

from box.isolation import IS_LINUX, IsolationFault

if IS_LINUX:
    from kernel import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IP_FREEBIND = 15
_MAX_BACKLOG = 128
_PORT_WAIT_S = 5.0
_RETRY_S = 0.005


def connect(plan: dict[str, Any]) -> None:
    """Replace the path in the plan, if there is one, by a connected descriptor; raise OSError if that fails."""
    path = plan.pop("path", None)
    if path is not None:
        handoff = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0)
        handoff.connect(path)
        plan["descriptor"] = handoff.detach()


def hand_over(descriptor: int, port: int) -> str:
    """Hand the call's listening socket over to the engine and return its label; raise IsolationFault if that fails."""
    label = os.urandom(16).hex()
    try:
        listener = _listener(port)
        own = calls.syscall("pidfd_open", os.getpid(), 0)
        attached = struct.pack("2i", listener.fileno(), own)
        handoff = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor)
        handoff.sendmsg([label.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, attached)])
    except OSError as error:
        raise IsolationFault("egress filter", str(error)) from error
    return label


def _listener(port: int) -> socket.socket:
    """Listen on the loopback's address, which exists only after the isolation switches the interface on."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    _bind(listener, port)
    listener.listen(_MAX_BACKLOG)
    return listener


def _bind(listener: socket.socket, port: int) -> None:
    """Bind to the port, which the engine may still hold for a moment.

    A container for one call has one network. If the process that was forked ahead is not ready in time, the runner
    kills it and forks another, and the engine closes the first one's socket when it learns of that.
    """
    deadline = time.monotonic() + _PORT_WAIT_S
    while True:
        try:
            listener.bind(("127.0.0.1", port))
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_S)
