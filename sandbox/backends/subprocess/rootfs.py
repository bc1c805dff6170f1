"""The root filesystem of a box: the interpreter with its packages, the system's libraries and programs, a few devices.

Everything is read-only, except for the one folder that a build box writes its result to. A tool can write to a private
tmpfs of its call only, `/work`, to which `/tmp` and `/dev/shm` lead. The host's home folders, secrets under `/etc`,
sockets and other processes are not hidden: the root filesystem never contained them.

The functions here compute the mounts from the host's layout and mount nothing, so that a test can read the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import Shown
from sandbox.backends.isolation import TOOL_USER, WORKPLACE, outermost, readable_paths, refuse_own_places

RUNNER: Final = "/runner"
"""The runner's place in a box that starts it again."""

_READ_ONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_FILES: Final = _READ_ONLY | _NOSUID | _NODEV
# A device can be written to although its mount is read-only; the times and modes of its file, which is the host's,
# cannot.
_DEVICE: Final = _READ_ONLY | _NOSUID | _NOEXEC

_SYSTEM: Final = (
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share/fontconfig",
    "/usr/share/fonts",
    "/usr/share/zoneinfo",
    "/usr/share/ca-certificates",
    "/usr/share/locale",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
)
_NETWORK_FILES: Final = ("/etc/resolv.conf", "/etc/ssl/certs")
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
# Mapping this device makes shared memory without a file, which only a control group counts.
_SHARED_MEMORY: Final = "zero"
_LINKS: Final = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/shm": f"{WORKPLACE}/.shm",
    "/tmp": f"{WORKPLACE}/.tmp",
    "/var/tmp": f"{WORKPLACE}/.tmp",
}
_TEXTS: Final = {
    "/etc/passwd": f"root:x:0:0:root:/:/bin/sh\ntool:x:{TOOL_USER[0]}:{TOOL_USER[1]}:tool:{WORKPLACE}:/bin/sh\n",
    "/etc/group": f"root:x:0:\ntool:x:{TOOL_USER[1]}:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "/etc/hostname": "sandbox\n",
}


@dataclass(frozen=True, slots=True)
class RootFilesystem:
    """The mounts, links and files of a box's root; targets are paths inside the box."""

    binds: tuple[tuple[str, str, int], ...]
    links: dict[str, str]
    files: dict[str, str]
    folders: tuple[str, ...]
    masks: tuple[str, ...]

    def plan(self) -> dict[str, JsonValue]:
        """Return the root filesystem as the runner's first message describes it."""
        return {
            "binds": [list(bind) for bind in self.binds],
            "links": dict(self.links),
            "files": dict(self.files),
            "folders": list(self.folders),
            "masks": list(self.masks),
        }


def build_rootfs(
    *,
    folders: Sequence[Path],
    hidden: Sequence[Path],
    readable: Iterable[str],
    reaches_network: bool,
    places: Sequence[Shown] = (),
    restart: tuple[Path, Path] | None = None,
    counts_memory: bool = True,
) -> RootFilesystem:
    """Return the root filesystem for one interpreter.

    `restart` names the interpreter and the runner if the box starts them again. Raises `BackendUnavailable` if the
    interpreter lies where every box has files of its own.
    """
    links = dict(_LINKS)
    shown: list[str] = []
    for path in _SYSTEM + (_NETWORK_FILES if reaches_network else ()):
        if os.path.islink(path) and not path.startswith("/etc/"):
            links[path] = os.readlink(path)
        elif os.path.exists(path):
            shown.append(path)
    for folder in folders:
        refuse_own_places(str(folder), what="the interpreter's folder")
        if str(folder) != "/usr":
            shown.append(str(folder))
    shown += readable_paths(readable)
    binds = [(os.path.realpath(path), path, _FILES) for path in outermost(shown)]
    if restart is not None:
        python, runner = restart
        binds.append((str(runner), RUNNER, _FILES))
        if not any(str(python).startswith(f"{path}/") for _, path, _ in binds):
            binds.append((str(python), str(python), _FILES))
    binds += [(os.path.realpath(each.source), each.target, _flags(each)) for each in places]
    names = [name for name in _DEVICES if counts_memory or name != _SHARED_MEMORY]
    devices = [(f"/dev/{name}", f"/dev/{name}", _DEVICE) for name in names]
    return RootFilesystem(
        binds=(*binds, *devices),
        links=links,
        files=_TEXTS,
        folders=(WORKPLACE, "/proc"),
        masks=tuple(str(path) for path in hidden),
    )


def _flags(shown: Shown) -> int:
    return _FILES & ~_READ_ONLY if shown.is_writable else _FILES
