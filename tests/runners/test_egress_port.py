"""A call's listening socket waits for the port that an earlier process of the same container still has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from box import egress

_HANDING_OVER: Final = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from box import egress, isolation
egress._PORT_WAIT_S = float(sys.argv[2])
taken = socket.create_server(("127.0.0.1", 0))
port = taken.getsockname()[1]
holder = os.fork()
if holder == 0:
    time.sleep(0.5)
    os._exit(0)
taken.close()
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    label = egress.hand_over(theirs.fileno(), port)
except isolation.IsolationFault as fault:
    print(fault.layer, fault.reason)
else:
    received, (listener, _), _, _ = socket.recv_fds(ours, 100, 2)
    found = socket.socket(fileno=listener)
    print(received.decode() == label, found.getsockname()[1] == port)
os.waitpid(holder, 0)
"""


@pytest.mark.parametrize(
    ("patience_s", "printed"), [(60, "True True\n"), (0.1, "egress filter [Errno 98] Address already in use\n")]
)
def test_a_port_in_use_is_waited_for(patience_s: float, printed: str) -> None:
    runner = str(Path(str(egress.__file__)).parents[1])
    command = [sys.executable, "-I", "-c", _HANDING_OVER, runner, str(patience_s)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == printed
