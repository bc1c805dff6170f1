"""Resolve requirements, in a box whose only network is a socket to the engine's gateway.

`uv` speaks HTTP over TCP, and the box has nothing but a loopback of its own: a relay listens there and carries each
connection to the socket. Returns what uv said and, if it found a solution, its lock as `pylock.toml`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading

PORT = 8479
_GATEWAY = "/gateway"
_PIECE = 1 << 18


def resolve(requirements: list[str], options: list[str], python: str) -> dict[str, object]:
    relay = socket.create_server(("127.0.0.1", PORT), backlog=64)
    threading.Thread(target=_accept, args=(relay,), daemon=True).start()
    environment = dict(os.environ, UV_CACHE_DIR="/work/cache", UV_HTTP_RETRIES="1", RUST_BACKTRACE="0")
    command = ["/uv", "pip", "compile", "-", "--python", python, "--format", "pylock.toml", *options]
    text = "".join(line + "\n" for line in requirements)
    ended = subprocess.run(
        command, check=False, input=text, env=environment, capture_output=True, encoding="utf-8", errors="replace"
    )
    return {"code": ended.returncode, "lock": ended.stdout, "said": ended.stderr}


def _accept(relay: socket.socket) -> None:
    while True:
        ours, _ = relay.accept()
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
    try:
        while True:
            data = source.recv(_PIECE)
            if not data:
                break
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            end.close()
