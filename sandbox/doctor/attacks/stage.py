"""The targets of attacks on this host, and the traces that attacks leave there.

The stage creates all targets for the purpose and removes them afterwards: files that every user may read, a process of
this user, sockets that every user may speak to. So a successful attack harms nothing else, and leaves a trace at its
target, whatever the attacker reports.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

from sandbox.backends.seccomp_profiles import load_table
from sandbox.doctor.attacks.packages import is_marked, make_wheels

_PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 0.02
_MIN_AGE_S: Final = 10.0
_PREFIX: Final = "sandbox-attack-"


class Stage:
    """A context manager: `facts` are the arguments of programs, `complaints` the new traces of attacks."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._secret = secrets.token_hex(16)
        self._listeners: list[tuple[str, socket.socket]] = []
        self._wheelhouse: Path | None = None
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._bystander = stack.enter_context(_bystander())
            marker = f"{_PREFIX}{secrets.token_hex(6)}"
            self._marker = marker
            self.facts = {
                "secrets": [path for folder in _folders() for path in stack.enter_context(_file(folder, self._secret))],
                "addresses": self._listen(stack),
                "shown": self._show(stack),
                "bystander": self._bystander.pid,
                "outside": _pid_namespace(),
                "oom_score": _oom_score(),
                "numbers": load_table(),
                "marker": marker,
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def wheelhouse(self) -> Path:
        """Return a folder with the wheels that attacks require; the first call builds them."""
        if self._wheelhouse is None:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX)))
            self._stack.enter_context(_locked(folder))
            make_wheels(folder)
            self._wheelhouse = folder
        return self._wheelhouse

    def complaints(self, said: str) -> list[str]:
        """Return the traces since the last call; `said` is all output of the box."""
        found = [f"a process spoke to {name}" for name, listener in self._listeners if _has_heard(listener)]
        if self._bystander.poll() is not None:
            found.append("a process of the host was killed")
        if self._secret in said:
            found.append("a secret of the host came back")
        if _outlives(self._marker):
            found.append("a process outlived its call")
        return found

    def _listen(self, stack: ExitStack) -> list[tuple[str, Any]]:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX)))
        stack.enter_context(_locked(folder))
        folder.chmod(0o755)
        path = str(folder / "socket")
        wanted: list[tuple[str, int, int, Any]] = [
            ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("TCP6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, path),
        ]
        if sys.platform == "linux":
            name = f"\0sandbox-attack-{secrets.token_hex(4)}"
            wanted.append(("unix", socket.AF_UNIX, socket.SOCK_STREAM, name))
        found = [address for each in wanted for address in self._bind(stack, *each)]
        Path(path).chmod(0o777)
        return found

    def _show(self, stack: ExitStack) -> str:
        """Return a folder that a policy can show, with a file and sockets in it; empty if this user can make none."""
        for place in (Path("/var/lib"), Path("/srv"), Path("/opt"), Path.home()):
            with suppress(OSError):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place)))
                break
        else:
            return ""
        stack.enter_context(_locked(folder))
        folder.chmod(0o755)
        (folder / "file").touch()
        (folder / "file").chmod(0o644)
        for name, form in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            if not self._bind(stack, f"shown {name}", socket.AF_UNIX, form, str(folder / name)):
                return ""
            (folder / name).chmod(0o777)
        return str(folder.resolve())

    def _bind(self, stack: ExitStack, kind: str, family: int, form: int, address: Any) -> list[tuple[str, Any]]:
        listener = stack.enter_context(socket.socket(family, form))
        try:
            listener.bind(address)
        except OSError:  # a host without IPv6
            return []
        listener.setblocking(False)
        if form == socket.SOCK_STREAM:
            listener.listen()
        bound = listener.getsockname()
        address = bound.decode() if isinstance(bound, bytes) else list(bound[:2]) if isinstance(bound, tuple) else bound
        self._listeners.append((f"the host's {kind} socket", listener))
        return [(kind, address)]


@contextmanager
def _bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that ends with us, or when it is attacked."""
    program = [sys.executable, "-I", "-S", "-B", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _file(folder: Path, secret: str) -> Iterator[list[str]]:
    """Create a file with the secret, which every user may read, if this user can write to the folder."""
    # The lock lasts as long as its maker lives, so that another campaign can recognise an orphan and remove it.
    _remove_left(folder)
    try:
        descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    except OSError:
        yield []
        return
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secret)
        Path(name).chmod(0o644)
        with _locked(Path(name)):
            yield [name]
    finally:
        with suppress(OSError):
            os.unlink(name)


def _remove_left(folder: Path) -> None:
    # Files of a campaign that was killed. The maker of a very young file may be about to lock it.
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(path) as descriptor:
            if time.time() - os.fstat(descriptor).st_mtime > _MIN_AGE_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Lock a file or folder; raise `OSError` if another process has locked it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def _folders() -> list[Path]:
    """Return the folders where people keep files."""
    places = [Path.home(), Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm"), Path("/srv"), Path("/opt")]
    return sorted({place for place in places if place.is_dir() and os.access(place, os.W_OK)})


def _pid_namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _oom_score() -> int:
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/oom_score_adj").read_text())
    return 0


def _has_heard(listener: socket.socket) -> bool:
    try:
        if listener.type is socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(100)
    except BlockingIOError:
        return False
    return True


def _outlives(marker: str) -> bool:
    """Return whether a process with that name still lives after the moment that a killed one takes to end."""
    deadline = time.monotonic() + _PATIENCE_S
    while any(_is_left(process, marker) for process in psutil.process_iter(["name", "cmdline"])):
        if time.monotonic() > deadline:
            return True
        time.sleep(_PAUSE_S)
    return False


def _is_left(process: psutil.Process, marker: str) -> bool:
    return is_marked(process) or marker in (process.info["cmdline"] or ())
