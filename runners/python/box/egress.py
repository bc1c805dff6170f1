"""The one way out of a call that may reach public addresses: a listening socket, handed to the engine.

It is made by the call's guard, before the walls, in the call's own network namespace, and belongs there whoever holds
it: so the engine answers the call's connections itself, and nothing of ours runs in the box for that. With it goes a
descriptor of the guard's process, by which the engine learns of its end from the kernel, and a label, by which it knows
these walls again. The way to hand it over is closed with all else that is the zygote's, before the tool's process is
forked. A runner that could not inherit that way connects to the engine by a socket that it is shown, before any
foreign code is there; nobody listens to that any more then.
"""

from __future__ import annotations

import _socket as socket
import os
import struct

from box.isolation import IS_LINUX, WallFault

if IS_LINUX:
    from kernel import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IP_FREEBIND = 15
_MOST_WAITING = 128


def find_the_way(plan: dict[str, Any]) -> None:
    """Have the descriptor that the plan's calls hand over by, where there is only a path so far. OSError without."""
    path = plan.pop("path", None)
    if path is not None:
        porter = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0)
        porter.connect(path)
        plan["descriptor"] = porter.detach()


def hand_over(descriptor: int, port: int) -> str:
    """Make the call's listening socket and hand it over there; its label. `WallFault` where that cannot be."""
    label = os.urandom(16).hex()
    try:
        listener = _listener(port)
        own = calls.syscall("pidfd_open", os.getpid(), 0)
        attached = struct.pack("2i", listener.fileno(), own)
        porter = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor)
        porter.sendmsg([label.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, attached)])
    except OSError as error:
        raise WallFault("egress filter", str(error)) from error
    return label


def _listener(port: int) -> socket.socket:
    """On the loopback, whose address is there when it is switched on, which takes walls of which this is none."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_MOST_WAITING)
    return listener
