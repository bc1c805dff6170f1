"""A way to a daemon that can be cut: a socket of the tests' own, whose connections are carried on to the daemon's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 16
_ATTACHING: Final = b"/attach?"


class Proxy:
    """Carries every connection; knows which of them are attached to containers, and how much those carried."""

    def __init__(self, path: Path, *, to: Path) -> None:
        self.url = f"unix://{path}"
        self._to = to
        self.carried_attached = 0
        self._counting = threading.Lock()
        self._is_heard = threading.Event()
        self._is_heard.set()
        self._lost = b""
        self._unheard: set[socket.socket] = set()
        self._attached: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen(64)
        self._start(self._accept)

    def cut_attached(self) -> int:
        """Break every attached stream; how many there were."""
        attached, self._attached = self._attached, []
        for end in attached:
            _break(end)
        return len(attached)

    @contextmanager
    def losing_answers(self, *, to: bytes) -> Iterator[None]:
        """Meanwhile connections end where the daemon answers requests like this."""
        self._lost = to
        try:
            yield
        finally:
            self._lost = b""

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pass nothing on meanwhile."""
        self._is_heard.clear()
        try:
            yield
        finally:
            self._is_heard.set()

    def close(self) -> None:
        """Break everything, and wait until nothing is carried any more."""
        _break(self._door)
        for end in self._open:
            _break(end)
        for thread in self._threads:
            thread.join()
        for end in (self._door, *self._open):
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.socket(socket.AF_UNIX)
                self._open += [near, far]
                far.connect(str(self._to))
                self._start(self._carry, near, far)
                self._start(self._carry, far, near)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                self._is_heard.wait()
                if self._lost and self._lost in piece[:100]:
                    self._unheard.add(target)
                if source in self._unheard:
                    _break(target)
                if _ATTACHING in piece[:500]:
                    self._attached.append(source)
                if {source, target} & {*self._attached}:
                    with self._counting:
                        self.carried_attached += len(piece)
                target.sendall(piece)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _start(self, target: object, *arguments: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()


def _break(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str, *, at: Path) -> Iterator[Proxy]:
    """Run a proxy to that daemon during the block."""
    proxy = Proxy(at, to=Path(url.removeprefix("unix://")))
    try:
        yield proxy
    finally:
        proxy.close()
