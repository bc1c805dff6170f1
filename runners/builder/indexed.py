"""Run uv on package indexes: resolve requirements, and build wheels of packages that come as source only.

The box has nothing but a loopback of its own. A relay listens there and carries each connection to the socket of the
engine's egress proxy, which uv is given as its proxy. Building from source runs foreign code; it has a box of its own
for that, without any login, and leaves nothing but a file.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading

PORT = 8479
_PROXY = "/gateway"
_PIECE = 1 << 18
_MAX_SAID = 32000
_CACHE = "/work/cache"
_SHA256 = re.compile(r'sha256 = "([0-9a-f]{64})"')


def resolve(requirements: list[str], options: list[str], python: str, variables: dict[str, str]) -> dict[str, object]:
    """Return what uv said and, if it found a solution, its `pylock.toml` and which hashes in it the indexes promise."""
    _open_relay()
    text = "".join(line + "\n" for line in requirements)
    words = ("pip", "compile", "-", "--python", python, "--format", "pylock.toml", *options)
    code, lock, said = _uv(*words, given=text, variables=variables)
    return {"code": code, "lock": lock, "said": said, "promised": _promised(lock) if code == 0 else []}


def make_wheels(
    sources: list[list[str]], options: list[str], python: str, variables: dict[str, str], folder: str
) -> dict[str, object]:
    """Make a wheel in `folder`/name of each archive, known by a name and a path; return what went wrong."""
    _open_relay()
    failed: dict[str, str] = {}
    for name, archive in sources:
        target = os.path.join(folder, name)
        words = ("build", "--wheel", archive, "--out-dir", target, "--python", python, *options)
        code, _, said = _uv(*words, variables=variables)
        if code:
            failed[name] = said
    return {"failed": failed}


def _promised(lock: str) -> list[str]:
    """Return the hashes of the lock that stand in a page of an index, as uv keeps those.

    uv computes the hash of a file that no page has a hash for; such a hash says nothing about what the index has.
    """
    wanted = set(_SHA256.findall(lock))
    found: set[str] = set()
    for kind in os.listdir(_CACHE):
        if not kind.startswith(("simple-", "flat-index-")):
            continue
        for parent, _, names in os.walk(os.path.join(_CACHE, kind)):
            for name in names:
                with open(os.path.join(parent, name), "rb") as page:
                    content = page.read()
                found.update(
                    each for each in wanted - found if bytes.fromhex(each) in content or each.encode() in content
                )
    return sorted(found)


def _uv(*words: str, variables: dict[str, str], given: str = "") -> tuple[int, str, str]:
    proxy = "http://127.0.0.1:%d" % PORT
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
    ended = subprocess.run(
        ["/uv", *words],
        check=False,
        input=given,
        env={**os.environ, **proxies, **variables, "UV_CACHE_DIR": _CACHE},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    return ended.returncode, ended.stdout, ended.stderr[-_MAX_SAID:]


def _open_relay() -> None:
    relay = socket.create_server(("127.0.0.1", PORT), backlog=64)
    threading.Thread(target=_accept, args=(relay,), daemon=True).start()


def _accept(relay: socket.socket) -> None:
    while True:
        ours, _ = relay.accept()
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_carry, args=(ours,), daemon=True).start()


def _carry(ours: socket.socket) -> None:
    theirs = socket.socket(socket.AF_UNIX)
    try:
        theirs.connect(_PROXY)
    except OSError:
        ours.close()
        return
    threading.Thread(target=_pump, args=(ours, theirs), daemon=True).start()
    _pump(theirs, ours)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry one direction to its end; each pump closes what it read from when the other has."""
    try:
        for data in iter(lambda: source.recv(_PIECE), b""):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            end.close()
