"""Connections to a Docker daemon on another machine, through the user's own `ssh`: keys, settings, known hosts.

Each connection is one `ssh HOST docker system dial-stdio`, as for the docker command, whose far end speaks to the
daemon's socket there. The Docker SDK supports SSH only with paramiko, another library that reads few of those settings;
so our connections carry the SDK's requests.

`ssh` gets no terminal: it prompts for no password, and its complaints are in the error.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from typing import Any, Final
from urllib.parse import urlsplit

import requests.adapters
import urllib3
import urllib3.connection

_MAX_SAID: Final = 300
_PATIENCE_S: Final = 2.0
_CONNECTIONS: Final = 10


class NotReached(OSError):
    """`ssh` did not lead to a daemon."""


class SshSocket(socket.socket):
    """The near end of a connection."""

    def __init__(self, near: socket.socket, process: subprocess.Popen[bytes]) -> None:
        super().__init__(fileno=near.detach())
        self._process = process
        self._said = b""
        self._listener = threading.Thread(target=self._listen, name="ssh", daemon=True)
        self._listener.start()

    def complaint(self) -> NotReached:
        """Return the reason of its end, in the words of `ssh` or of the program that it reached."""
        self._listener.join(_PATIENCE_S)
        return NotReached(self._said.decode("utf-8", "replace").strip() or "the connection ended without a message")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as complaints:
            for line in complaints:
                self._said = (self._said + line)[-_MAX_SAID:]
        self._process.wait()


def dial(url: str) -> SshSocket:
    """Open a connection to the daemon of that `ssh://[user@]host[:port]`."""
    parts = urlsplit(url)
    port = ["-p", str(parts.port)] if parts.port else []
    user = ["-l", parts.username] if parts.username else []
    near, far = socket.socketpair()
    try:
        with far:
            process = subprocess.Popen(
                ["ssh", "-T", *user, *port, "--", parts.hostname or "", "docker", "system", "dial-stdio"],
                stdin=far.fileno(),
                stdout=far.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except OSError as error:
        near.close()
        raise NotReached("there is no program `ssh` here") from error
    return SshSocket(near, process)


class _SshConnection(urllib3.connection.HTTPConnection):
    def __init__(self, url: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._url = url

    def connect(self) -> None:
        self.sock = dial(self._url)
        self.sock.settimeout(self.timeout if isinstance(self.timeout, int | float) else None)

    def getresponse(self) -> Any:
        sock = self.sock
        try:
            return super().getresponse()
        except ConnectionError as error:
            raise (sock.complaint() if isinstance(sock, SshSocket) else error) from error


class _Connections(urllib3.HTTPConnectionPool):
    def __init__(self, url: str, timeout_s: float) -> None:
        super().__init__("localhost", maxsize=_CONNECTIONS)
        self._url = url
        self._timeout_s = timeout_s

    def _new_conn(self) -> _SshConnection:
        return _SshConnection(self._url, self._timeout_s)


class SshAdapter(requests.adapters.HTTPAdapter):
    """An adapter that carries a session's requests to the daemon of that address."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        super().__init__()
        self._connections = _Connections(url, timeout_s)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> urllib3.HTTPConnectionPool:
        return self._connections

    def close(self) -> None:
        self._connections.close()
        super().close()
