"""The far side, as root in a network namespace: every address belongs to this machine, and a server answers.

The name decides how the name server answers: see `addresses_of`. The web server speaks plain HTTP at every port except
443, where it has a certificate; the requested path decides what it does.
"""

from __future__ import annotations

import json
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

public, public_6, authority = sys.argv[1:]
heard: list[list[object]] = []
names: list[str] = []
times_asked: dict[str, int] = {}
FIXED = {
    "private.example": ["10.0.0.1"],
    "loopback.example": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "mixed.example": ["10.0.0.1", "192.168.1.1", public],
    "six.example": [public_6],
    "private-six.example": ["fd00:ec2::254"],
    "mapped.example": ["::ffff:10.0.0.1"],
}


def addresses_of(name: str) -> list[str]:
    """Return the addresses of a name. `rebind.example` is public at the first look-up, and the machine's own later."""
    if name.startswith("rebind"):
        return [public] if times_asked[name] <= 1 else ["127.0.0.1"]
    if name.startswith("as-"):  # as-10-0-0-1.example
        return [name.partition(".")[0][3:].replace("-", ".")]
    if name.endswith("public.example"):
        return [public]
    return FIXED.get(name, [])


def answer(query: bytes) -> bytes:
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += 1 + query[at]
    (kind,) = struct.unpack_from(">H", query, at + 1)
    name = ".".join(labels).lower()
    family, length = {1: (socket.AF_INET, 4), 28: (socket.AF_INET6, 16)}.get(kind, (None, 0))
    if kind == 1:
        names.append(name)
        times_asked[name] = times_asked.get(name, 0) + 1
    packed = [socket.inet_pton(family, each) for each in addresses_of(name) if family and _is_of(family, each)]
    code = 0x8580 if addresses_of(name) else 0x8583
    head = query[:2] + struct.pack(">HHHHH", code, 1, len(packed), 0, 0)
    records = b"".join(struct.pack(">HHHIH", 0xC00C, kind, 1, 0, length) + each for each in packed)
    return head + query[12 : at + 5] + records


def _is_of(family: int, address: str) -> bool:
    return (":" in address) == (family == socket.AF_INET6)


def serve_names() -> None:
    near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    near.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO: answer from the address that was asked
    near.bind(("0.0.0.0", 53))
    while True:
        query, attached, _, who = near.recvmsg(2048, 1024)
        info = next(content for _, kind, content in attached if kind == 8)
        _, _, to = struct.unpack("I4s4s", info[:12])
        source = [(socket.IPPROTO_IP, 8, struct.pack("I4s4s", 0, to, b"\0" * 4))]
        near.sendmsg([answer(query)], source, 0, who)


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        address, port = self.connection.getsockname()[:2]
        self.heard: list[object] = [address.removeprefix("::ffff:"), port, "a connection"]
        heard.append(self.heard)

    def parse_request(self) -> bool:
        is_fine = super().parse_request()
        self.heard[2] = self.requestline
        return is_fine

    def do_GET(self) -> None:
        path, _, more = self.path.partition("?")
        if path == "/redirect":
            self._say(b"", status=302, location=unquote(more))
        elif path == "/endless":
            self._endless()
        elif path == "/silent":
            time.sleep(600)
        elif path == "/fields":
            self._say(json.dumps([[name, text] for name, text in self.headers.items()]).encode())
        else:
            self._say(f"hello from {self.headers.get('Host')}".encode())

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._say(f"{len(body)} bytes".encode())

    def _say(self, body: bytes, *, status: int = 200, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * (1 << 16))
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    block_on_close = False
    request_queue_size = 200

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "far", self.server_address[1]

    def handle_error(self, *_: object) -> None:
        pass


def serve(port: int) -> None:
    server = Server(("::", port), Web)
    if port == 443:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(f"{authority}/server.pem", f"{authority}/server-key.pem")
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


class Proxy(socketserver.StreamRequestHandler):
    """A company's proxy: answers 200 to every request, and connects to no other machine."""

    def handle(self) -> None:
        address, port = self.connection.getsockname()[:2]
        first = self.rfile.readline().decode("latin-1").strip()
        heard.append([address, port, first])
        logins = [line for line in iter(self.rfile.readline, b"\r\n") if line.lower().startswith(b"proxy-auth")]
        if first.startswith("CONNECT "):
            self.wfile.write(b"HTTP/1.1 200 Fine\r\n\r\n")
            self.rfile.readline()
        said = f"by way of a proxy, {len(logins)} logins".encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)


def serve_proxy() -> None:
    server = socketserver.ThreadingTCPServer(("0.0.0.0", 3129), Proxy)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


def send(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(*lines: str) -> None:
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


send("there")
assert sys.stdin.readline() == "cable\n"
run(
    "link set lo up",
    "addr add 10.77.0.2/30 dev far",
    "addr add fd77::2/64 dev far nodad",
    "link set far up",
    "route add local 0.0.0.0/0 dev lo table main",
    "-6 route add local ::/0 dev lo table main",
)
for port in (22, 80, 443, 8080, 8443):
    serve(port)
serve_proxy()
threading.Thread(target=serve_names, daemon=True).start()
send("up")
for question in sys.stdin:
    records = heard if re.fullmatch("heard\n", question) else names
    since = records[:]
    del records[: len(since)]  # more may have come by now
    send(json.dumps(since))
