"""The tree of files a box sees: the interpreter with what is installed for it, the system's libraries and programs, a
few devices, and nothing else.

All of it is read-only, but for the one folder that a box which builds something is given. The only places a tool can
write to are a private tmpfs per call, `/work`, to which `/tmp` and `/dev/shm` lead. The host's home folders, secrets
under `/etc`, sockets and other processes are not hidden here: they were never put in.

Pure functions of the host's layout: what there is goes in, what is to be mounted comes out, and a test can look at it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from sandbox.backends.base import Shown
from sandbox.errors import BackendUnavailable

WORKPLACE: Final = "/work"
RUNNER: Final = "/runner"
"""Where a box shows the runner, if it does."""
TOOL_USER: Final = (1000, 1000)

_READ_ONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_FILES: Final = _READ_ONLY | _NOSUID | _NODEV
_DEVICE: Final = _READ_ONLY | _NOSUID | _NOEXEC
"""Devices can be written to all the same; their files' times and modes, which are the host's, stay as they are."""

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
_NAMES_OF_THE_NETWORK: Final = ("/etc/resolv.conf", "/etc/ssl/certs")
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_SHARED_MEMORY: Final = "zero"
"""To map this device is to make shared memory without a file, which only a control group counts."""
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
class Tree:
    """What the box's root is made of; targets are as the box sees them."""

    binds: tuple[tuple[str, str, int], ...]
    links: dict[str, str]
    files: dict[str, str]
    folders: tuple[str, ...]
    masks: tuple[str, ...]

    def plan(self) -> dict[str, JsonValue]:
        """The tree as the runner is told of it."""
        return {
            "binds": [list(bind) for bind in self.binds],
            "links": dict(self.links),
            "files": dict(self.files),
            "folders": list(self.folders),
            "masks": list(self.masks),
        }


def build_tree(
    *,
    folders: Sequence[Path],
    hidden: Sequence[Path],
    readable: Iterable[str],
    reaches_network: bool,
    places: Sequence[Shown] = (),
    started_again: tuple[Path, Path] | None = None,
    counts_memory: bool = True,
) -> Tree:
    """The tree for one interpreter, with the interpreter itself and its runner where it is `started_again` in the box;
    raises `BackendUnavailable` when it lies where the box has its own files."""
    links = dict(_LINKS)
    shown: list[str] = []
    for path in _SYSTEM + (_NAMES_OF_THE_NETWORK if reaches_network else ()):
        if os.path.islink(path) and not path.startswith("/etc/"):
            links[path] = os.readlink(path)
        elif os.path.exists(path):
            shown.append(path)
    for folder in folders:
        _refuse_ours(str(folder), what="the interpreter's folder")
        if str(folder) != "/usr":
            shown.append(str(folder))
    shown += readable_paths(readable)
    binds = [(os.path.realpath(path), path, _FILES) for path in _outermost(shown)]
    if started_again is not None:
        python, runner = started_again
        binds.append((str(runner), RUNNER, _FILES))
        if not any(str(python).startswith(f"{path}/") for _, path, _ in binds):
            binds.append((str(python), str(python), _FILES))
    binds += [(os.path.realpath(each.source), each.target, _flags(each)) for each in places]
    names = [name for name in _DEVICES if counts_memory or name != _SHARED_MEMORY]
    devices = [(f"/dev/{name}", f"/dev/{name}", _DEVICE) for name in names]
    return Tree(
        binds=(*binds, *devices),
        links=links,
        files=_TEXTS,
        folders=(WORKPLACE, "/proc"),
        masks=tuple(str(path) for path in hidden),
    )


def readable_paths(paths: Iterable[str]) -> list[str]:
    """Return the host's paths that a policy shows, each once; raise `BackendUnavailable` if a box cannot show one."""
    for path in paths:
        _refuse_ours(path, what="a readable path")
        if not os.path.exists(path):
            raise BackendUnavailable(
                f"a readable path is missing: the policy shows {path}, which is not there",
                remedy="correct filesystem.readable",
            )
    return _outermost(paths)


def _flags(shown: Shown) -> int:
    return _FILES & ~_READ_ONLY if shown.is_writable else _FILES


def _refuse_ours(path: str, *, what: str) -> None:
    for ours in (WORKPLACE, "/tmp", "/var/tmp", "/proc", "/dev", "/etc"):
        if path == ours or path.startswith(ours + "/"):
            raise BackendUnavailable(
                f"{what} {path} lies under {ours}, where a box has files of its own",
                remedy="move it elsewhere on this host",
            )


def _outermost(paths: Iterable[str]) -> list[str]:
    """Each path once, without those that lie below another."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(path == other or path.startswith(other + "/") for other in kept):
            kept.append(path)
    return kept
