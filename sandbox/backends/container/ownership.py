"""Whose a container is, written on it, so that others can tell what a dead engine left behind.

An engine that is killed removes nothing, and the death of a daemon's client stops no container. So each carries labels
that say which engine made it, in which process on which host, and until when it can be needed::

    sandbox.owner      the engine's id, which the container's name begins with too
    sandbox.host       a digest of the host's name, its machine id, and the pid namespace the engine lives in
    sandbox.boot       which run of that host
    sandbox.pid        the engine's process
    sandbox.started    when that started, in ticks since the boot: no change of the wall clock touches it
    sandbox.expires    seconds since the epoch, after which its engine would have removed it in any case
    sandbox.kind       what it is for

Everybody else on the daemon is believed alive until proved dead, and proof is to be had on the same host only: the host
has been started anew, the process is not there, or what has its number began at another time. Of an engine on another
host, or in another container, nothing can be known but that its containers have long expired. Two machines that were
cloned, name and machine id included, look like one that was started anew: they must not share a daemon.

Images hand their labels down, also one that somebody made from a container of ours. A container is therefore ours only
when all labels are there and well-formed, and its name is one that this engine gives.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from sandbox.backends.docker.daemon import LABELS, OWNER_LABEL

Kind = Literal["box", "build"]

EXPIRES_LABEL: Final = f"{LABELS}expires"

_NAME: Final = "sandbox"
_STARTED: Final = 19
"""In /proc/<pid>/stat, counted from behind the program's name."""
_STATE: Final = 0
_DEAD: Final = frozenset("ZX")
_SHAPES: Final = {
    OWNER_LABEL: r"[0-9a-f]{16}",
    f"{LABELS}host": r"[0-9a-f]{32}",
    f"{LABELS}boot": r"[0-9a-z.-]{1,40}",
    f"{LABELS}pid": r"[1-9][0-9]{0,8}",
    f"{LABELS}started": r"[0-9]{1,18}(\.[0-9]{1,9})?",
    EXPIRES_LABEL: r"[0-9]{1,12}",
    f"{LABELS}kind": "|".join(get_args(Kind)),
}


@dataclass(frozen=True, slots=True)
class Owner:
    """An engine, as its containers name it."""

    engine: str
    host: str
    boot: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Owner:
        """A new engine in this process. Ask again after a fork: the child is another."""
        pid = os.getpid()
        started = _started(pid)
        if started is None:
            raise RuntimeError("this process is not in /proc, so nobody could tell whether it is alive")
        return cls(engine=secrets.token_hex(8), host=_host(), boot=_boot(), pid=pid, started=started)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Owner | None:
        """Who wrote them; None when not all of them are there, or one is not as we write it."""
        if not all(re.fullmatch(shape, labels.get(label, ""), re.ASCII) for label, shape in _SHAPES.items()):
            return None
        return cls(
            engine=labels[OWNER_LABEL],
            host=labels[f"{LABELS}host"],
            boot=labels[f"{LABELS}boot"],
            pid=int(labels[f"{LABELS}pid"]),
            started=labels[f"{LABELS}started"],
        )

    def labels(self, *, expires_at: float, kind: Kind = "box") -> dict[str, str]:
        """What a container of this engine carries; nobody needs it after `expires_at`, in seconds since the epoch."""
        return {
            OWNER_LABEL: self.engine,
            f"{LABELS}host": self.host,
            f"{LABELS}boot": self.boot,
            f"{LABELS}pid": str(self.pid),
            f"{LABELS}started": self.started,
            EXPIRES_LABEL: str(int(expires_at)),
            f"{LABELS}kind": kind,
        }

    def new_name(self) -> str:
        """A name for a container of this engine, which no other will ever have."""
        return f"{_NAME}-{self.engine}-{secrets.token_hex(8)}"

    def gave_name(self, name: str) -> bool:
        """Whether it is a name as this engine gives them."""
        return re.fullmatch(f"{_NAME}-{self.engine}-[0-9a-f]{{16}}", name) is not None

    def is_of_this_host(self) -> bool:
        """Whether it can be known from here whether it lives."""
        return self.host == _host()

    def is_dead(self) -> bool:
        """Whether its end is proved; of an owner on another host it never is."""
        if not self.is_of_this_host():
            return False
        return self.boot != _boot() or _has_ended(self.pid, self.started)


def expires_at(labels: Mapping[str, str]) -> int:
    """When what carries them is needed no more, in seconds since the epoch; they are an owner's."""
    return int(labels[EXPIRES_LABEL])


def _host() -> str:
    parts = (socket.gethostname(), _line("/etc/machine-id"), _pid_namespace())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _pid_namespace() -> str:
    """What process numbers mean; the same on the whole host but inside of containers."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _boot() -> str:
    """Where the kernel numbers no boots, none is told from another, and the process alone is proof."""
    return _line("/proc/sys/kernel/random/boot_id") or "unknown"


def _line(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _has_ended(pid: int, started: str) -> bool:
    """Whether that process is no more. One that is there but may not be looked at may be it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    now_there = _started(pid)
    return now_there is not None and now_there != started


def _started(pid: int) -> str | None:
    """When the process of that number started, nothing for the remains of one; None where that cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except OSError:
        return _started_elsewhere(pid)
    return "" if fields[_STATE] in _DEAD else fields[_STARTED]


def _started_elsewhere(pid: int) -> str | None:
    """The same where there is no /proc; hidden processes end up here too."""
    import psutil

    if Path("/proc/self/stat").exists():
        return None
    try:
        return f"{psutil.Process(pid).create_time():.6f}"
    except psutil.Error:
        return None
