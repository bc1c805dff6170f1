"""A deadline for a whole answer of an index, from connecting to its last byte.

A timeout of `requests` is one of each read: an index that sends a byte now and then is never cut off by it, neither
while it sends headers, nor the body of a redirect, nor one long chunk. So a timer shuts the connection's socket down,
whatever the asking thread waits for there, and that thread finds out afterwards why (`is_over`).

Connections learn of the deadline of the thread that uses them: `watch_connections` has each of them report to the
deadline under which it connects or sends.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from sandbox.environments.indexes.answers import Fault

_current: Final = threading.local()


class Deadline:
    """The time for one answer; end it with `stop`."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self.is_over = False
        self._began = time.monotonic()
        self._connection: Any = None
        self._socket: socket.socket | None = None
        self._lock = threading.RLock()
        with self._lock:
            self._timer = self._start_timer()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Watch the connection that this thread uses in the block, until `stop`."""
        _current.deadline = self
        try:
            yield
        finally:
            _current.deadline = None

    def move(self, within_s: float) -> None:
        """Allow that long instead, counted from the beginning."""
        with self._lock:
            self.within_s = within_s
            self._timer.cancel()
            if not self.is_over:
                self._timer = self._start_timer()

    def watch(self, connection: Any, plug: Any) -> None:
        """Cut this connection off when the time is over, which it may be."""
        with self._lock:
            self._forget()
            connection.deadline = self
            self._connection = connection
            self._socket = socket.socket(fileno=os.dup(plug.fileno()))  # TLS moves the descriptor to another object
            if self.is_over:
                raise TimeoutError("the deadline of the answer has passed")

    def stop(self) -> None:
        """Stop watching: the answer is read, or not wanted any more."""
        with self._lock:
            self._timer.cancel()
            self._forget()

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._connection = self._socket = None

    def _start_timer(self) -> threading.Timer:
        left_s = self._began + self.within_s - time.monotonic()
        timer = threading.Timer(max(left_s, 0), self._cut_off)
        timer.daemon = True
        timer.start()
        return timer

    def _cut_off(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return
            self.is_over = True
            if self._socket is None or self._connection.deadline is not self:  # the pool may have handed it on
                return
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def watch_connections(manager: Any) -> None:
    """Have every connection of the manager's pools report to the deadline of the thread that uses it."""

    def watched(connection: Any) -> Any:
        class Watched(connection):  # type: ignore[misc]  # plain or with TLS, of whatever kind these pools have
            deadline: Deadline | None = None

            def _new_conn(self) -> Any:
                return self._watched(super()._new_conn())

            def request(self, *args: Any, **kwargs: Any) -> None:
                if self.sock is not None:
                    self._watched(self.sock)
                super().request(*args, **kwargs)

            def _watched(self, plug: Any) -> Any:
                deadline: Deadline | None = getattr(_current, "deadline", None)
                try:
                    if deadline is not None:
                        deadline.watch(self, plug)
                except BaseException:
                    plug.close()
                    raise
                return plug

        return Watched

    pools = manager.pool_classes_by_scheme.items()
    manager.pool_classes_by_scheme = {
        scheme: type("WatchedPool", (pool,), {"ConnectionCls": watched(pool.ConnectionCls)}) for scheme, pool in pools
    }


@contextmanager
def in_time(deadline: Deadline) -> Iterator[None]:
    """Around what asks for an answer or reads it: if the deadline has passed, that is why it failed."""
    try:
        yield
    except Exception:
        if not deadline.is_over:
            raise
    if deadline.is_over:
        reason = f"it sends too slowly: its answer was not here within {deadline.within_s:.3g} s"
        raise Fault(reason, reach="index") from None
