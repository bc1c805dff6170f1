"""The near side, as root in network and mount namespaces: a machine with a cable to the outside.

Services listen on its loopback and on an address that looks public. The program answers questions from standard input
on standard output, until standard input closes.
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


def send(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(*lines: str) -> None:
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


def mount_text(path: str, text: str) -> None:
    """Mount a file with that text over the path."""
    ours = os.path.join(folder, os.path.basename(path))
    with open(ours, "w") as file:
        file.write(text)
    os.chmod(ours, 0o644)
    subprocess.run(["mount", "--bind", ours, os.path.realpath(path)], check=True)


def listen(address: str, port: int) -> socket.socket:
    made = socket.socket()
    made.bind((address, port))
    made.listen(100)
    made.setblocking(False)
    return made


def accept_own() -> list[list[object]]:
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
mount_text("/etc/resolv.conf", f"nameserver {NAME_SERVER}\noptions timeout:2 attempts:1\n")
mount_text("/etc/hosts", "127.0.0.1 localhost near\n10.77.0.2 in-the-hosts-file.example\n")
far.stdin.write("cable\n")
far.stdin.flush()
assert far.stdout.readline() == "up\n"
own = [listen(address, port) for address in ("127.0.0.1", own_public) for port in (80, 443)]
send("up")
for line in sys.stdin:
    far.stdin.write(line)
    far.stdin.flush()
    said = json.loads(far.stdout.readline())
    send(json.dumps(said + accept_own() if line == "heard\n" else said))
far.stdin.close()
far.wait()
