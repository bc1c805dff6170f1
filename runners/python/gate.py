"""The gate between a guard and its tool: the tool's process gets ready while the guard still measures the walls, and
goes no further before they are found to be in force."""

from __future__ import annotations

import os


class Gate:
    """Closed when it is made; made before the fork, it stands between the two processes."""

    def __init__(self) -> None:
        self._wait, self._open = os.pipe()

    def wait(self) -> None:
        """Go on when the other process has opened it; it ends this one, too, where it does not."""
        os.close(self._open)
        if not os.read(self._wait, 1):
            os._exit(0)
        os.close(self._wait)

    def open(self) -> None:
        """Let the other process go on."""
        os.write(self._open, b"1")
        self.forget()

    def forget(self) -> None:
        """It stays closed for ever."""
        os.close(self._open)
        os.close(self._wait)
