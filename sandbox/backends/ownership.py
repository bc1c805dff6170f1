"""Owners of control groups and containers, so that a later engine can remove the orphans of a dead one.

An engine that is killed removes nothing: its control groups stay, and the daemon keeps its containers. So each group
and each container names the process of its engine by pid and start time, in ticks since the boot. No change of the wall
clock touches that time, and no two processes of one host share both numbers.

A later engine removes only the property of an owner that it proves dead; every other owner counts as alive.

**Control groups** carry the owner in their name::

    sandbox-<pid>-<start time>-<pid namespace>-<engine>

A pid means something in its own pid namespace only, and control groups are visible across namespaces. So the proof
takes one of two forms. In our own namespace: no process has the pid, or that process started at another time. From the
machine's first namespace, which sees every process: no process is left in the owner's namespace.

**Containers** carry the owner in labels::

    sandbox.owner      the engine's id, which also starts the container's name
    sandbox.host       a digest of the host's name, its machine id, and the engine's pid namespace
    sandbox.boot       the boot id of that host
    sandbox.pid        the engine's process
    sandbox.started    the start time of that process
    sandbox.expires    seconds since the epoch, after which the engine would have removed the container in any case
    sandbox.kind       the purpose of the container

Proof exists on the same host only: the host has booted again, or the process has ended. Containers of other hosts are
judged by their expiry alone. Two cloned machines with the same name and machine id look like one machine that booted
again, so they must not share a daemon.

Images inherit labels, also an image that a user committed from a container of ours. So a container counts as ours only
if all labels are present and well-formed, and its name has the form that this engine gives.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

ContainerKind = Literal["box", "build"]

LABELS: Final = "sandbox."
"""The prefix of all our labels, on images and on containers."""
OWNER_LABEL: Final = f"{LABELS}owner"
"""On an image, this project; on a container, the id of its engine."""
EXPIRES_LABEL: Final = f"{LABELS}expires"
GROUP_PREFIX: Final = "sandbox-"

_CONTAINER_PREFIX: Final = "sandbox"
_GROUP_NAME: Final = re.compile(GROUP_PREFIX + r"([1-9][0-9]{0,8})-([0-9]{1,20})-([0-9]{1,20})-[0-9a-f]+", re.ASCII)
_LABEL_FORMS: Final = {
    OWNER_LABEL: r"[0-9a-f]{16}",
    f"{LABELS}host": r"[0-9a-f]{32}",
    f"{LABELS}boot": r"[0-9a-z.-]{1,40}",
    f"{LABELS}pid": r"[1-9][0-9]{0,8}",
    f"{LABELS}started": r"[0-9]{1,18}(\.[0-9]{1,9})?",
    EXPIRES_LABEL: r"[0-9]{1,12}",
    f"{LABELS}kind": "|".join(get_args(ContainerKind)),
}
# Fields of /proc/<pid>/stat, counted after the program's name.
_STATE, _START_TIME = 0, 19
_DEAD: Final = frozenset("ZX")
# The kernel gives the namespaces that exist at boot the same numbers on every machine.
_FIRST_NAMESPACE: Final = str(0xEFFFFFFC)


@dataclass(frozen=True, slots=True)
class GroupOwner:
    """A process with engines, as the names of its control groups describe it."""

    pid: int
    started: str
    namespace: str

    @classmethod
    def current(cls) -> GroupOwner:
        """Return this process."""
        # "self" is this process even if /proc belongs to another pid namespace.
        return cls(os.getpid(), _start_time("self") or "0", _namespace("self") or "0")

    @classmethod
    def of(cls, name: str) -> GroupOwner | None:
        """Return the owner of the group with that name; None if the name has another form."""
        found = _GROUP_NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2], found[3])

    def name_for(self, engine: int) -> str:
        """Return the name of the group that holds all groups of that engine."""
        return f"{GROUP_PREFIX}{self.pid}-{self.started}-{self.namespace}-{engine:x}"


def orphaned_groups(folders: Iterable[Path]) -> Iterator[Path]:
    """Return the groups whose owner is proved dead."""
    # List the groups before looking at any process: an engine that starts meanwhile is not among them.
    owned = [(folder, owner) for folder in folders if (owner := GroupOwner.of(folder.name)) is not None]
    here = _namespace("self")
    if not owned or not _sees_its_own_processes():
        return
    is_elsewhere = any(owner.namespace != here for _, owner in owned)
    inhabited = _inhabited_namespaces() if is_elsewhere and here == _FIRST_NAMESPACE else None
    for folder, owner in owned:
        if owner.namespace == here:
            is_dead = _has_ended(owner.pid, owner.started)
        else:
            is_dead = inhabited is not None and owner.namespace not in inhabited
        if is_dead:
            yield folder


@dataclass(frozen=True, slots=True)
class ContainerOwner:
    """An engine, as the labels of its containers describe it."""

    engine: str
    host: str
    boot: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ContainerOwner:
        """Return a new engine in this process. Call again after a fork: the child is another owner."""
        started = _start_time(pid := os.getpid())
        if started is None:
            raise RuntimeError("this process is missing in /proc, so no other engine could see whether it lives")
        return cls(engine=secrets.token_hex(8), host=_host(), boot=_boot(), pid=pid, started=started)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> ContainerOwner | None:
        """Return the owner that wrote the labels; None if a label is missing or malformed."""
        if not all(re.fullmatch(form, labels.get(label, ""), re.ASCII) for label, form in _LABEL_FORMS.items()):
            return None
        return cls(
            engine=labels[OWNER_LABEL],
            host=labels[f"{LABELS}host"],
            boot=labels[f"{LABELS}boot"],
            pid=int(labels[f"{LABELS}pid"]),
            started=labels[f"{LABELS}started"],
        )

    def labels(self, *, expires_at: float, kind: ContainerKind = "box") -> dict[str, str]:
        """Return the labels for a container that is useless after `expires_at`, in seconds since the epoch."""
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
        """Return a unique name for a container of this engine."""
        return f"{_CONTAINER_PREFIX}-{self.engine}-{secrets.token_hex(8)}"

    def gave_name(self, name: str) -> bool:
        """Return whether the name has the form of this engine's names."""
        return re.fullmatch(f"{_CONTAINER_PREFIX}-{self.engine}-[0-9a-f]{{16}}", name) is not None

    def is_of_this_host(self) -> bool:
        """Return whether this process can find out whether the owner lives."""
        return self.host == _host()

    def is_dead(self) -> bool:
        """Return whether the owner's end is proved; an owner on another host is never proved dead."""
        if not self.is_of_this_host():
            return False
        return self.boot != _boot() or _has_ended(self.pid, self.started)


def expiry_of(labels: Mapping[str, str]) -> int:
    """Return the expiry, in seconds since the epoch, in an owner's labels."""
    return int(labels[EXPIRES_LABEL])


def _has_ended(pid: int, started: str) -> bool:
    """Return whether the process is proved to have ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    # A process that exists but is hidden from this user may be the owner.
    return _start_time(pid) not in (started, None)


def _start_time(pid: int | str) -> str | None:
    """Return the start time of the process; empty for a zombie, None if the time is not readable."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except OSError:
        return _start_time_without_proc(pid)
    return "" if fields[_STATE] in _DEAD else fields[_START_TIME]


def _start_time_without_proc(pid: int | str) -> str | None:
    # Hidden processes end up here, too: with a /proc, an unreadable entry proves nothing.
    if Path("/proc/self/stat").exists():
        return None
    import psutil

    try:
        return f"{psutil.Process(os.getpid() if pid == 'self' else int(pid)).create_time():.6f}"
    except psutil.Error:
        return None


def _inhabited_namespaces() -> set[str] | None:
    """Return every pid namespace below our own that a process lives in; None if some processes are hidden."""
    if not os.path.exists("/proc/1"):  # /proc hides the processes of other users
        return None
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        if _namespace_depth(process) <= 1:
            continue
        namespace = _namespace(process)
        if namespace is not None:
            found.add(namespace)
        elif os.path.exists(f"/proc/{process}"):
            return None
    return found


def _namespace_depth(process: str) -> int:
    """Return the number of pid namespaces from our own down to the process's; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text("latin-1").splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) - 1
    return 0


def _sees_its_own_processes() -> bool:
    """Return whether /proc belongs to our own pid namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _namespace(process: int | str) -> str | None:
    """Return the number of the process's pid namespace; None if it is not readable."""
    link = _namespace_link(process)
    return link.removeprefix("pid:[").removesuffix("]") or None


def _namespace_link(process: int | str) -> str:
    try:
        return os.readlink(f"/proc/{process}/ns/pid")
    except OSError:
        return ""


def _host() -> str:
    parts = (socket.gethostname(), _line("/etc/machine-id"), _namespace_link("self"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _boot() -> str:
    # A kernel without boot ids makes all boots look alike; the process alone is the proof then.
    return _line("/proc/sys/kernel/random/boot_id") or "unknown"


def _line(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
