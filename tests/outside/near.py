"""The near side, as root in network and mount namespaces of its own: a machine with a cable to the outside.

Services of its own listen on its loopback and on an address that looks public. What is asked on standard input is
answered on standard output, until that closes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

public, public_6, own_public, authority, folder = sys.argv[1:]
HERE = Path(__file__).parent
NAME_SERVER = "9.9.9.9"


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(*lines: str) -> None:
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


def show(path: str, text: str) -> None:
    """Have this machine read that text there."""
    ours = os.path.join(folder, os.path.basename(path))
    with open(ours, "w") as file:
        file.write(text)
    os.chmod(ours, 0o644)
    subprocess.run(["mount", "--bind", ours, os.path.realpath(path)], check=True)


def listener(address: str, port: int) -> socket.socket:
    made = socket.socket()
    made.bind((address, port))
    made.listen(100)
    made.setblocking(False)
    return made


def heard_here() -> list[list[object]]:
    found: list[list[object]] = []
    for each in own:
        try:
            while True:
                each.accept()[0].close()
                found.append([*each.getsockname()[:2], "a connection"])
        except BlockingIOError:
            continue
    return found


far = subprocess.Popen(
    ["unshare", "--net", sys.executable, "-I", str(HERE / "far.py"), public, public_6, authority],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
)
assert far.stdin
assert far.stdout
assert far.stdout.readline() == "there\n"
run(
    "link set lo up",
    f"addr add {own_public}/32 dev lo",
    f"link add near type veth peer name far netns {far.pid}",
    "addr add 10.77.0.1/30 dev near",
    "addr add fd77::1/64 dev near nodad",
    "link set near up",
    "route add default via 10.77.0.2 dev near",
    "-6 route add default via fd77::2 dev near",
)
show("/etc/resolv.conf", f"nameserver {NAME_SERVER}\noptions timeout:2 attempts:1\n")
show("/etc/hosts", "127.0.0.1 localhost near\n10.77.0.2 in-the-hosts-file.example\n")
far.stdin.write("cable\n")
far.stdin.flush()
assert far.stdout.readline() == "up\n"
own = [listener(address, port) for address in ("127.0.0.1", own_public) for port in (80, 443)]
tell("up")
for line in sys.stdin:
    far.stdin.write(line)
    far.stdin.flush()
    said = json.loads(far.stdout.readline())
    tell(json.dumps(said + heard_here() if line == "heard\n" else said))
far.stdin.close()
far.wait()
