"""Attack: reach what is not public under a policy that lets calls reach public addresses, or more than it says.

The outside is the tests' own: every address in the world, private and metadata ones included, is a listener's that
writes down who spoke to it. So a wall that fails is heard, and nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import AsyncSandbox
from sandbox.doctor.attacks import Attack, AttackFinding, attack_all
from sandbox.doctor.attacks.network import NETWORK
from sandbox.policy import load
from tests.checkout import ROOT
from tests.escape.engines import Engine, call, engine_of
from tests.escape.outside_engines import engine, engine_of_root, engine_without_root, policy, world
from tests.escape.test_outside_addresses import ADDRESSES, ADDRESSES_6, ATTACK, NAMES
from tests.escape.test_own_executable import own_interpreter
from tests.outside import OWN_PUBLIC, PUBLIC, PUBLIC_6, Heard, Outside
from tests.provision import debian
from tests.unprivileged import NOBODY

__all__ = ["engine", "engine_of_root", "engine_without_root", "own_interpreter", "world"]

pytestmark = [pytest.mark.root, pytest.mark.slow]

TOOL: Final = """
import json, os, select, socket, subprocess, time, urllib.error, urllib.request

def ask(url: str) -> list:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return [answer.status, answer.read().decode()]
    except urllib.error.HTTPError as error:
        return [error.code, error.headers["x-sandbox-egress"]]
    except OSError as error:
        return [0, str(error)]

def say(texts: list) -> list:
    # each on a connection of its own, past all libraries; how the answers begin
    return [_say(text.encode("latin-1")) for text in texts]

def _say(data: bytes) -> str:
    with socket.create_connection(("127.0.0.1", 3128), timeout=20) as near:
        try:
            near.sendall(data)
            answer = b""
            while piece := near.recv(65536):
                answer += piece
            return answer.decode("latin-1")
        except OSError as error:
            return type(error).__name__

def connect(places: list) -> list:
    request = "GET /said HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
    return [tunnel(place, request)[:120] for place in places]

def tunnel(place: str, request: str) -> str:
    with socket.create_connection(("127.0.0.1", 3128), timeout=20) as near:
        near.sendall(("CONNECT " + place + " HTTP/1.1\\r\\nHost: " + place + "\\r\\n\\r\\n").encode())
        answer = near.recv(65536).decode("latin-1")
        if " 200 " in answer:
            near.sendall(request.encode())
            answer += near.recv(65536).decode("latin-1")
        return answer

def read(url: str) -> int:
    count = 0
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            while data := answer.read(65536):
                count += len(data)
    except OSError:
        pass
    return count

def send(url: str, size: int) -> str:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=b"x" * size), timeout=20) as answer:
            return answer.read().decode()
    except OSError as error:
        return type(error).__name__

def open_tunnels(count: int, awaited: int, more_s: float) -> int:
    # how many are answered: so many are waited for, and more for that long; they stay open until the end
    kept = [socket.create_connection(("127.0.0.1", 3128), timeout=20) for _ in range(count)]
    for near in kept:
        near.sendall(b"CONNECT public.example:80 HTTP/1.1\\r\\n\\r\\n")
    silent, answered = set(kept), 0
    while silent:
        heard = select.select(silent, [], [], 20 if answered < awaited else more_s)[0]
        if not heard:
            break
        answered += sum(b" 200 " in near.recv(100) for near in heard)
        silent -= set(heard)
    return answered

def leave_open(path: str) -> str:
    near = socket.create_connection(("127.0.0.1", 3128), timeout=20)
    near.sendall(b"CONNECT public.example:80 HTTP/1.1\\r\\n\\r\\n")
    answer = near.recv(100).decode()
    near.sendall(b"GET " + path.encode() + b" HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    os.dup2(near.fileno(), 50)
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    return answer

def stay(path: str) -> None:
    print(leave_open(path), flush=True)
    time.sleep(600)

def run(command: list) -> list:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return [done.returncode, done.stdout, done.stderr]

def own_descriptors() -> list:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink("/proc/self/fd/" + number))
        except OSError:
            continue
    return found

def close_all(url: str) -> list:
    os.closerange(0, 21)
    return ask(url)
"""
REFUSED_HOSTS: Final = (
    *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "metadata.google.internal"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "100.64.0.1", "192.0.0.192", "198.18.0.1"),
    *("127.0.0.1", "127.8.8.8", "localhost", "localhost.", "near", "0.0.0.0", "0", "127.1", "2130706433"),
    *("0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376"),
    *("192.0.2.1", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("[::1]", "[::]", "[fd00:ec2::254]", "[fe80::1]", "[ff02::1]", "[2001:db8::1]", "[fd77::1]", "[fd77::2]"),
    *("[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:a00:1::1]"),
    *("private.example", "loopback.example", "private-six.example", "mapped.example", "in-the-hosts-file.example"),
    *("as-169-254-169-254.example", "as-10-77-0-1.example", "10.77.0.1", "10.77.0.2", OWN_PUBLIC),
)


@pytest.fixture(autouse=True)
def quiet(world: Outside) -> None:
    """Forget the traffic of earlier tests."""
    until_nothing_is_open(world)
    world.heard()
    world.asked_names()


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value]


def _network(outcome: Any) -> dict[str, Any]:
    found: dict[str, Any] = outcome.evidence["network"]
    return found


def test_the_outside_hears_who_speaks_to_it(world: Outside) -> None:
    for address in ("169.254.169.254", "10.0.0.1", OWN_PUBLIC, "127.0.0.1"):
        asking = f"import socket; socket.create_connection(({address!r}, 80), 5).send(b'GET / HTTP/1.1\\r\\n\\r\\n')"
        subprocess.run([*world.inside(), "python3", "-c", asking], check=True)
        assert [each[:2] for each in _heard(world, 1)] == [(address, 80)]


def _heard(world: Outside, least: int) -> list[Heard]:
    """Return all requests, after at least that number."""
    found, deadline = world.heard(), time.monotonic() + 60
    while len(found) < least and time.monotonic() < deadline:
        found += world.heard()
    return found


def test_a_call_reaches_public_hosts_and_its_outcome_tells(engine: Engine, world: Outside) -> None:
    outcome = engine.run(TOOL, {"url": "http://public.example/hello"}, entry="ask", policy="network")
    assert outcome.value == [200, "hello from public.example"]
    assert outcome.receipt is not None
    assert outcome.receipt.network == "public, through the engine's proxy"
    assert outcome.receipt.layers["network_namespace"].detail == "its own; interfaces: lo"
    told = _network(outcome)
    assert (told["connections"], told["refused"], told["refusals"], told["exhausted"]) == (1, 0, [], [])
    assert told["sent_bytes"] > 50
    assert told["received_bytes"] > 50
    assert world.heard() == [Heard(PUBLIC, 80, "GET /hello HTTP/1.1")]


def test_what_is_encrypted_is_carried_as_it_is(engine: Engine, world: Outside) -> None:
    trusted = (world.authority / "ca.pem").read_text()
    source = TOOL + (
        "\nimport ssl\n"
        "def ask_safely(trusted: str) -> list:\n"
        "    known = ssl.create_default_context(cadata=trusted)\n"
        "    with urllib.request.urlopen('https://www.public.example/safe', context=known, timeout=20) as answer:\n"
        "        return [answer.status, answer.read().decode()]\n"
    )
    value = engine.value(source, {"trusted": trusted}, entry="ask_safely", policy="network")
    assert value == [200, "hello from www.public.example"]
    assert world.heard() == [Heard(PUBLIC, 443, "GET /safe HTTP/1.1")]


def test_programs_that_know_proxies_find_ours(engine: Engine, world: Outside) -> None:
    debian.require("curl")
    command = ["curl", "-sS", "http://public.example/curl"]
    assert engine.value(TOOL, {"command": command}, entry="run", policy="network")[1] == "hello from public.example"
    assert world.heard() == [Heard(PUBLIC, 80, "GET /curl HTTP/1.1")]


def test_addresses_of_version_6_are_reached_as_well(engine: Engine, world: Outside) -> None:
    for host in ("six.example", f"[{PUBLIC_6}]"):
        value = engine.value(TOOL, {"url": f"http://{host}/six"}, entry="ask", policy="network")
        assert value == [200, f"hello from {host}"]
    assert world.heard() == [Heard(PUBLIC_6, 80, "GET /six HTTP/1.1")] * 2


@pytest.mark.timeout(240)
def test_nothing_but_public_addresses_is_reached_however_they_are_written(engine: Engine, world: Outside) -> None:
    requests = [f"GET http://{host}/said HTTP/1.1\r\n\r\n" for host in REFUSED_HOSTS]
    answers = engine.value(TOOL, {"texts": requests}, entry="say", policy="network")
    answers += engine.value(
        TOOL, {"places": [f"{host}:80" for host in REFUSED_HOSTS]}, entry="connect", policy="network"
    )
    assert len(answers) == 2 * len(REFUSED_HOSTS)
    passed = [host for host, answer in zip(REFUSED_HOSTS * 2, answers, strict=True) if not is_refusal(answer)]
    assert passed == []
    assert world.heard() == []


def is_refusal(answer: str) -> bool:
    return answer.startswith(("HTTP/1.1 403 ", "HTTP/1.1 502 ", "HTTP/1.1 400 ")) and "x-sandbox-egress" in answer


def test_without_the_proxy_there_is_no_way_out_at_all(engine: Engine, world: Outside) -> None:
    args = {"addresses": [*ADDRESSES, PUBLIC, "9.9.9.9"], "addresses_6": [*ADDRESSES_6, PUBLIC_6], "names": NAMES}
    said = engine.value(ATTACK, args, entry="tool", policy="network")
    assert {"spoken", "resolved"} & set(said) == set()
    assert (world.heard(), world.asked_names()) == ([], [])


def test_a_name_that_means_something_else_a_moment_later_gains_nothing(engine: Engine, world: Outside) -> None:
    host = f"rebind-{time.monotonic_ns()}.example"
    first = engine.value(TOOL, {"url": f"http://{host}/first"}, entry="ask", policy="network")
    second = engine.value(TOOL, {"url": f"http://{host}/second"}, entry="ask", policy="network")
    assert (first, second) == ([200, f"hello from {host}"], [403, "address"])
    assert world.heard() == [Heard(PUBLIC, 80, "GET /first HTTP/1.1")]
    assert world.asked_names() == [host, host]


def test_only_the_public_addresses_of_a_name_are_reached(engine: Engine, world: Outside) -> None:
    value = engine.value(TOOL, {"url": "http://mixed.example/mixed"}, entry="ask", policy="network")
    assert value == [200, "hello from mixed.example"]
    assert world.heard() == [Heard(PUBLIC, 80, "GET /mixed HTTP/1.1")]


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "http://loopback.example/", f"http://{OWN_PUBLIC}/"]
)
def test_a_redirect_leads_to_nothing_that_could_not_be_asked_for(engine: Engine, world: Outside, target: str) -> None:
    url = f"http://public.example/redirect?{target}"
    assert engine.value(TOOL, {"url": url}, entry="ask", policy="network") == [403, "address"]
    assert {each.address for each in world.heard()} == {PUBLIC}


def test_only_the_ports_of_the_web_are_reached(engine_of_root: Engine, world: Outside) -> None:
    places = [f"public.example:{port}" for port in (22, 25, 53, 8080, 65535, 0, 65536, 70000)]
    answers = engine_of_root.value(TOOL, {"places": places}, entry="connect", policy="network")
    assert [answer.split(" ")[1] for answer in answers] == ["403"] * 5 + ["400"] * 3
    assert world.heard() == []


def test_a_policy_that_names_hosts_lets_calls_reach_those_alone(engine_of_root: Engine, world: Outside) -> None:
    named = policy(world, "named", hosts=["public.example", "*.public.example:8080", "private.example"])
    urls = {
        "http://public.example/": 200,
        "http://PUBLIC.example./": 200,
        "http://api.public.example:8080/": 200,
        "http://public.example:8080/": 403,
        "http://api.public.example/": 403,
        "http://mixed.example/": 403,
        f"http://{PUBLIC}/": 403,
        "http://notpublic.example:8080/": 403,
        "http://private.example/": 403,
    }
    found = {url: engine_of_root.value(TOOL, {"url": url}, entry="ask", policy=named)[0] for url in urls}
    assert found == urls
    assert len(world.heard()) == 3


SMUGGLED: Final = {
    "two hosts": "GET http://public.example/ HTTP/1.1\r\nHost: public.example\r\nHost: other.example\r\n\r\n",
    "another host": "GET http://public.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
    "another host to connect to": "CONNECT public.example:80 HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n",
    "bare line feeds": "GET http://public.example/ HTTP/1.1\nHost: public.example\n\r\n\r\n",
    "a bare carriage return": "GET http://public.example/ HTTP/1.1\r\nX: a\rHost: other.example\r\n\r\n",
    "a NUL": "GET http://public.example\x00.example/ HTTP/1.1\r\n\r\n",
    "a folded line": "GET http://public.example/ HTTP/1.1\r\nX: a\r\n Host: other.example\r\n\r\n",
    "a space before a colon": "GET http://public.example/ HTTP/1.1\r\nHost : other.example\r\n\r\n",
    "a login": "GET http://public.example@10.0.0.1/ HTTP/1.1\r\n\r\n",
    "a login to connect to": "CONNECT public.example@10.0.0.1:80 HTTP/1.1\r\n\r\n",
    "an escaped host": "GET http://%31%30.0.0.1/ HTTP/1.1\r\n\r\n",
    "a backslash": "GET http://public.example\\@10.0.0.1/ HTTP/1.1\r\n\r\n",
    "no address": "GET /latest/meta-data HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
    "another scheme": "GET ftp://public.example/ HTTP/1.1\r\n\r\n",
    "a file": "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "an old version": "GET http://public.example/\r\n\r\n",
    "another protocol": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "two spaces": "GET  http://public.example/ HTTP/1.1\r\n\r\n",
    "an invalid port": "CONNECT public.example:8x HTTP/1.1\r\n\r\n",
    "two lengths": "POST http://public.example/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "a length next to a coding": (
        "POST http://public.example/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "two codings": "POST http://public.example/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "a negative length": "POST http://public.example/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "many fields": "GET http://public.example/ HTTP/1.1\r\n" + "X: y\r\n" * 200 + "\r\n",
}


def test_an_ambiguous_head_is_sent_nowhere(engine_of_root: Engine, world: Outside) -> None:
    answers = engine_of_root.value(TOOL, {"texts": list(SMUGGLED.values())}, entry="say", policy="network")
    statuses = {name: answer.split(" ")[1] for name, answer in zip(SMUGGLED, answers, strict=True)}
    assert statuses == dict.fromkeys(SMUGGLED, "400")
    assert world.heard() == []


def test_a_head_without_end_is_refused(engine_of_root: Engine, world: Outside) -> None:
    head = "GET http://public.example/ HTTP/1.1\r\nX: " + "y" * (1 << 20)
    (answer,) = engine_of_root.value(TOOL, {"texts": [head]}, entry="say", policy="network")
    assert answer.startswith("HTTP/1.1 431 ") or answer in ("ConnectionResetError", "BrokenPipeError")
    assert world.heard() == []


def test_what_follows_a_request_is_not_sent_on(engine_of_root: Engine, world: Outside) -> None:
    second = "GET /smuggled HTTP/1.1\r\nHost: other.example\r\n\r\n"
    texts = [
        "GET http://public.example/one HTTP/1.1\r\n\r\n" + second,
        "POST http://public.example/two HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" + second,
        "POST http://public.example/three HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + second,
    ]
    answers = engine_of_root.value(TOOL, {"texts": texts}, entry="say", policy="network")
    assert [answer.split(" ")[1] for answer in answers] == ["200"] * 3
    said = [f"{verb} HTTP/1.1" for verb in ("GET /one", "POST /two", "POST /three")]
    assert [each.said for each in world.heard()] == said


def test_what_is_between_a_program_and_its_proxy_stays_there(engine_of_root: Engine, world: Outside) -> None:
    head = (
        "GET http://public.example/fields HTTP/1.1\r\nHost: public.example\r\nProxy-Authorization: Basic eA==\r\n"
        "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nUpgrade: websocket\r\n\r\n"
    )
    (answer,) = engine_of_root.value(TOOL, {"texts": [head]}, entry="say", policy="network")
    answered, _, body = answer.partition("\r\n\r\n")
    assert json.loads(body) == [["Host", "public.example"], ["X-Kept", "2"], ["Connection", "close"]]
    assert "Connection: close" in answered.split("\r\n"), "or the program would send its next request here"


@pytest.mark.parametrize(
    "body", ["5\r\nabc\r\n0\r\n\r\n", "zz\r\n", "3;x=y\r\nabc\r\n0\r\n\r\n", "3\r\nabcde\r\n0\r\n\r\n"]
)
def test_a_body_that_is_not_what_it_says_ends_its_connection(engine_of_root: Engine, world: Outside, body: str) -> None:
    head = "POST http://public.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    (answer,) = engine_of_root.value(TOOL, {"texts": [head + body]}, entry="say", policy="network")
    assert answer.startswith("HTTP/1.1 400 ")


def test_a_call_that_says_nothing_is_not_waited_for(engine_of_root: Engine, world: Outside) -> None:
    began = time.monotonic()
    (answer,) = engine_of_root.value(TOOL, {"texts": ["GET http://public"]}, entry="say", policy="network")
    assert answer.startswith("HTTP/1.1 408 ")
    assert time.monotonic() - began > 5
    assert world.heard() == []


def test_no_more_connections_are_open_at_once_than_the_policy_says(engine_of_root: Engine, world: Outside) -> None:
    few = policy(world, "few", connections=3)
    assert engine_of_root.value(TOOL, {"count": 8, "awaited": 3, "more_s": 1.0}, entry="open_tunnels", policy=few) == 3


def test_no_more_connections_are_opened_in_all_than_the_policy_says(engine_of_root: Engine, world: Outside) -> None:
    few = policy(world, "few-in-all", connections_in_all=5)
    texts = ["GET http://public.example/ HTTP/1.1\r\n\r\n"] * 8
    outcome = engine_of_root.run(TOOL, {"texts": texts}, entry="say", policy=few)
    assert [answer.split(" ")[1] for answer in _texts(outcome.value)] == ["200"] * 5 + ["429"] * 3
    assert _network(outcome)["exhausted"] == ["connections_in_all"]
    assert len(world.heard()) == 5


def test_a_download_without_end_ends_at_the_limit(engine_of_root: Engine, world: Outside) -> None:
    small = policy(world, "small", received="1MiB")
    outcome = engine_of_root.run(TOOL, {"url": "http://public.example/endless"}, entry="read", policy=small)
    told = _network(outcome)
    assert (1 << 19) < int(str(outcome.value)) <= 1 << 20
    assert (1 << 19) < told["received_bytes"] <= 1 << 20
    assert told["exhausted"] == ["received"]


def test_no_more_is_sent_than_the_policy_says(engine_of_root: Engine, world: Outside) -> None:
    small = policy(world, "little", sent="100kB")
    value = engine_of_root.value(TOOL, {"url": "http://public.example/", "size": 90_000}, entry="send", policy=small)
    assert value == "90000 bytes"
    outcome = engine_of_root.run(TOOL, {"url": "http://public.example/", "size": 900_000}, entry="send", policy=small)
    assert outcome.value == "HTTPError"
    assert _network(outcome)["sent_bytes"] <= 100_000
    assert _network(outcome)["exhausted"] == ["sent"]


def test_a_connection_over_which_nothing_goes_is_closed(engine_of_root: Engine, world: Outside) -> None:
    quick = policy(world, "quick", idle="1s")
    assert engine_of_root.value(TOOL, {"url": "http://public.example/silent"}, entry="read", policy=quick) == 0
    until_nothing_is_open(world)


@pytest.mark.parametrize("path", ["/silent", "/endless"])
def test_a_connection_left_open_ends_with_its_call(engine: Engine, world: Outside, path: str) -> None:
    assert " 200 " in engine.value(TOOL, {"path": path}, entry="leave_open", policy="network")
    until_nothing_is_open(world)


def until_nothing_is_open(world: Outside) -> None:
    deadline = time.monotonic() + 60
    while _connections(world):
        assert time.monotonic() < deadline, _connections(world)
        time.sleep(0.02)


def _connections(world: Outside) -> list[str]:
    """Return the near side's connections to the outside, without those that the kernel is closing."""
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{world.process}/net/{name}").read_text().splitlines()[1:]:
            _, _, remote, state, *_ = line.split()
            if state == "01":
                found.append(f"{family.name} {remote}")
    return found


def test_an_engine_that_is_killed_leaves_no_connection(world: Outside) -> None:
    with engine_of(*world.inside(), sys.executable, cwd=ROOT) as (_, process):
        assert process.stdin is not None
        asked = call(TOOL, {"path": "/silent"}, entry="stay", policy="network")
        process.stdin.write(json.dumps([None, asked]) + "\n")
        process.stdin.flush()
        assert _heard(world, 1)[0].address == PUBLIC
        assert _connections(world)
        process.kill()
    until_nothing_is_open(world)


def test_a_tool_holds_nothing_that_leads_to_the_engine(engine: Engine) -> None:
    found = engine.value(TOOL, entry="own_descriptors", policy="network")
    assert [each for each in found if each.startswith(("socket:", "anon_inode:"))] == []


def test_a_box_that_was_started_again_has_its_network(
    world: Outside, own_interpreter: Path, unprivileged_python: Path
) -> None:
    packages = next(unprivileged_python.parents[1].glob("lib/python*/site-packages"))
    command = (*world.inside("--setuid", str(NOBODY), "--setgid", str(NOBODY)), str(own_interpreter))
    with engine_of(*command, cwd="/", env={"PYTHONPATH": str(packages)}) as (engine, _):
        value = engine.value(TOOL, {"url": "http://public.example/again"}, entry="ask", policy="network")
    assert value == [200, "hello from public.example"]
    assert len(world.heard()) == 1


def test_a_tool_that_closes_what_it_finds_still_has_its_network(engine: Engine, world: Outside) -> None:
    value = engine.value(TOOL, {"url": "http://public.example/closed"}, entry="close_all", policy="network")
    assert value == [200, "hello from public.example"]


def test_calls_at_the_same_time_have_books_of_their_own(engine: Engine, world: Outside) -> None:
    first = call(TOOL, {"path": "/endless"}, entry="stay", policy="network")
    said, outcome = engine.run_during(first, call(TOOL, {"url": "http://10.0.0.1/"}, entry="ask", policy="network"))
    assert " 200 " in said
    assert _network(outcome) == {
        "connections": 1,
        "sent_bytes": 0,
        "received_bytes": 0,
        "refused": 1,
        "refusals": [{"host": "10.0.0.1", "reason": "address"}],
        "exhausted": [],
    }


@pytest.fixture(scope="module")
def engine_behind_a_proxy(world: Outside) -> Iterator[Engine]:
    """An engine whose machine is set up for a proxy."""
    set_up = {**os.environ, "HTTPS_PROXY": "http://us:secret@10.77.0.2:3129", "HTTP_PROXY": "http://10.77.0.2:3129"}
    with engine_of(*world.inside(), sys.executable, cwd=ROOT, env=set_up) as (engine, _):
        yield engine


def test_a_machine_that_needs_a_proxy_goes_by_way_of_it(engine_behind_a_proxy: Engine, world: Outside) -> None:
    value = engine_behind_a_proxy.value(TOOL, {"url": "http://public.example/x"}, entry="ask", policy="network")
    assert value == [200, "by way of a proxy, 0 logins"]
    places = {"places": ["public.example:443"]}
    (answer,) = engine_behind_a_proxy.value(TOOL, places, entry="connect", policy="network")
    assert answer.endswith("by way of a proxy, 1 logins")
    asked = ["GET http://public.example/x HTTP/1.1", "CONNECT public.example:443 HTTP/1.1"]
    assert world.heard() == [Heard("10.77.0.2", 3129, each) for each in asked]


def test_what_is_not_public_is_not_asked_of_another_proxy(engine_behind_a_proxy: Engine, world: Outside) -> None:
    hosts = ("10.0.0.1", "169.254.169.254", "127.0.0.1", "private.example", "loopback.example", "unknown.example")
    answers = engine_behind_a_proxy.value(
        TOOL, {"places": [f"{host}:443" for host in hosts]}, entry="connect", policy="network"
    )
    assert [answer.split(" ")[1] for answer in answers] == ["403"] * 5 + ["502"]
    assert world.heard() == []


def test_an_unknown_name_goes_to_the_other_proxy_if_the_policy_names_it(
    engine_behind_a_proxy: Engine, world: Outside
) -> None:
    named = policy(world, "known-elsewhere", hosts=["unknown.example", "private.example"])
    value = engine_behind_a_proxy.value(TOOL, {"url": "http://unknown.example/"}, entry="ask", policy=named)
    assert value == [200, "by way of a proxy, 0 logins"]
    refused = engine_behind_a_proxy.value(TOOL, {"url": "http://private.example/"}, entry="ask", policy=named)
    assert refused == [403, "address"]
    assert len(world.heard()) == 1


def test_no_tool_sees_the_machines_own_proxy(engine_behind_a_proxy: Engine) -> None:
    source = "import os\n\ndef tool() -> list:\n    return [t for n, t in os.environ.items() if n.endswith('_PROXY')]\n"
    found = engine_behind_a_proxy.value(source, policy="network")
    assert set(found) == {"http://127.0.0.1:3128", "localhost,127.0.0.1"}


def test_a_call_without_a_network_finds_no_proxy(engine: Engine) -> None:
    source = TOOL + (
        "\ndef find() -> list:\n"
        "    told = sorted(set(os.environ) & {'HTTP_PROXY', 'https_proxy'})\n"
        "    with socket.socket() as near:\n"
        "        return [near.connect_ex(('127.0.0.1', 3128)), told]\n"
    )
    engine.run(TOOL, {"url": "http://public.example/"}, entry="ask", policy="network")
    assert engine.value(source, entry="find") == [111, []]


@pytest.mark.parametrize("attack", NETWORK, ids=lambda attack: attack.name)
def test_the_shipped_attacks_on_the_network_are_held_where_there_is_one(attack: Attack) -> None:
    async def besiege() -> list[AttackFinding]:
        async with AsyncSandbox(backend="subprocess") as sandbox:
            return [finding async for finding in attack_all(sandbox, load("network"), [attack])]

    (finding,) = asyncio.run(besiege())
    assert finding.held, finding.how
