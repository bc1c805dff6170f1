"""Attack: speak to addresses outside of the machine: a cloud's metadata service, private and documentation ranges, name
servers.

The engine runs in a network namespace of the test's own, in which every one of these addresses is the machine's: should
the wall fail, the call would speak to the test's listeners, and nothing would leave the machine. The listeners are
first spoken to from outside of a box, and hear that.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unprivileged import AS_NOBODY

ADDRESSES: Final = ("169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1", "192.168.1.1", "192.0.2.1")
ADDRESSES_6: Final = ("fd00:ec2::254", "2001:db8::1")
NAMES: Final = ("example.com", "metadata.google.internal")
ATTACK: Final = """
import socket

def speak(family: int, kind: int, address: tuple) -> str:
    with socket.socket(family, kind) as near:
        near.settimeout(0.5)
        try:
            near.connect(address)
            near.send(b"attack")
        except OSError as error:
            return type(error).__name__
    return "spoken"

def resolve(name: str) -> str:
    try:
        socket.getaddrinfo(name, 80)
    except OSError as error:
        return type(error).__name__
    return "resolved"

def tool(addresses: list, addresses_6: list, names: list) -> list:
    said = [speak(2, kind, (each, port)) for each in addresses for kind, port in ((1, 80), (2, 53), (1, 53))]
    said += [speak(10, kind, (each, port)) for each in addresses_6 for kind, port in ((1, 80), (2, 53))]
    said.append(speak(2, 2, ("255.255.255.255", 53)))
    return said + [resolve(name) for name in names]
"""
# Runs as root in the new namespace, where one route makes all addresses the machine's.
STAGE: Final = """
import json, os, socket, subprocess, sys

attack, python, engine, *given = sys.argv[1:]
args, identity = map(json.loads, given)
for command in ("link set lo up", "route add local 0.0.0.0/0 dev lo", "-6 route add local ::/0 dev lo"):
    subprocess.run(["ip", *command.split()], check=True)

def listener(family, kind, port):
    made = socket.socket(family, kind)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
    made.setblocking(False)
    if kind == socket.SOCK_STREAM:
        made.listen(100)
    return made

plain = [(kind, port) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) for port in (53, 80)]
listeners = [listener(family, *each) for family in (socket.AF_INET, socket.AF_INET6) for each in plain]

def heard():
    count = 0
    for each in listeners:
        try:
            while True:
                if each.type == socket.SOCK_STREAM:
                    each.accept()[0].close()
                else:
                    each.recv(1000)
                count += 1
        except BlockingIOError:
            continue
    return count

outside = {}
exec(attack, outside)
outside["tool"](**{**args, "names": []})
from_outside = heard()
run = subprocess.run([python, "-I", "-c", engine, attack, json.dumps(args)], capture_output=True, text=True, **identity)
print(json.dumps({"from_outside": from_outside, "from_a_box": heard(), "outcome": run.stdout, "error": run.stderr}))
"""
ENGINE: Final = """
import json, sys
from sandbox import Sandbox
with Sandbox() as engine:
    print(engine.run(sys.argv[1], json.loads(sys.argv[2])).to_json())
"""
_AS_ROOT: Final[dict[str, Any]] = {}


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("identity", [_AS_ROOT, AS_NOBODY], ids=["as root", "without root"])
def test_nothing_arrives_at_any_address(identity: dict[str, Any], unprivileged_python: Path) -> None:
    args = json.dumps({"addresses": ADDRESSES, "addresses_6": ADDRESSES_6, "names": NAMES})
    python = str(unprivileged_python)
    stage = ["unshare", "--net", python, "-I", "-c", STAGE, ATTACK, python, ENGINE, args, json.dumps(identity)]
    answer = subprocess.run(stage, cwd="/", capture_output=True, text=True, timeout=220, check=False)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["error"] == ""
    outcome = json.loads(found["outcome"])
    assert outcome["status"] == "ok", outcome["error"]
    assert found["from_outside"] >= 3 * len(ADDRESSES)
    assert found["from_a_box"] == 0
    assert {"spoken", "resolved"} & set(outcome["value"]) == set()
