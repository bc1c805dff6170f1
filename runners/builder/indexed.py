"""What needs package indexes: resolving requirements, and building wheels of packages that come as source only.

Both run in a box whose only network is a socket to the engine's gateway. `uv` speaks HTTP over TCP, and the box has
nothing but a loopback of its own: a relay listens there and carries each connection to the socket.

Building from source runs what strangers wrote. It has a box of its own for that, and leaves nothing but a file.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import threading

PORT = 8479
_GATEWAY = "/gateway"
_PIECE = 1 << 18
_MOST_SAID = 32000
_PATIENCE_S = "900"
"""More than the gateway has: it is who knows why an index is slow, and who says so."""


def resolve(requirements: list[str], options: list[str], python: str) -> dict[str, object]:
    """What uv said and, if it found a solution, its lock as `pylock.toml`."""
    _open_relay()
    text = "".join(line + "\n" for line in requirements)
    code, lock, said = _uv("pip", "compile", "-", "--python", python, "--format", "pylock.toml", *options, given=text)
    return {"code": code, "lock": lock, "said": said}


def make_wheels(sources: list[list[str]], options: list[str], python: str, folder: str) -> dict[str, object]:
    """Each source, known by a name, an address and a SHA-256, as a wheel in `folder`/name; or what went wrong."""
    _open_relay()
    failed: dict[str, str] = {}
    for name, url, sha256 in sources:
        archive = os.path.join("/work", os.path.basename(url))
        if _download(url, archive) != sha256:
            failed[name] = "its source is not what the index said it is"
            continue
        target = os.path.join(folder, name)
        code, _, said = _uv("build", "--wheel", archive, "--out-dir", target, "--python", python, *options)
        if code:
            failed[name] = said
    return {"failed": failed}


def _download(url: str, place: str) -> str:
    """The file's SHA-256."""
    import urllib.request  # takes longer to import than all the rest, and is wanted for sources only

    digest = hashlib.sha256()
    with urllib.request.urlopen(url) as answer, open(place, "wb") as file:  # noqa: S310  (it leads to the gateway)
        while True:
            piece = answer.read(_PIECE)
            if not piece:
                return digest.hexdigest()
            digest.update(piece)
            file.write(piece)


def _uv(*words: str, given: str = "") -> tuple[int, str, str]:
    environment = dict(os.environ, UV_CACHE_DIR="/work/cache", UV_HTTP_RETRIES="1", UV_HTTP_TIMEOUT=_PATIENCE_S)
    ended = subprocess.run(
        ["/uv", *words],
        check=False,
        input=given,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    return ended.returncode, ended.stdout, ended.stderr[-_MOST_SAID:]


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
        theirs.connect(_GATEWAY)
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
