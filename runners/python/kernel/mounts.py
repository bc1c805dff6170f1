"""mount(2), pivot_root(2), mount_setattr(2): the file tree of a box.

The root of the box is a small tmpfs. The host's root is first moved aside inside it (pivot_root), the permitted paths
are bound from there read-only, and then the host's root is unmounted: no path leads to it any more.
mount_setattr(AT_RECURSIVE) sets read-only, nosuid and nodev on a whole bound tree at once, because a plain bind remount
changes only the topmost mount and leaves the host's mounts below it writable.
"""

from __future__ import annotations

import ctypes
import os

from kernel import calls

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
_BIND, _REC, _PRIVATE, _REMOUNT = 4096, 16384, 1 << 18, 32
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def mount(
    source: str, target: str, kind: str | None, flags: int, data: str = "", *, kernel: calls.Kernel = calls.NOW
) -> None:
    """Call mount(2), with the target in the error."""
    names = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    kernel.make("mount", *names, flags, data.encode(), about=target)


def tmpfs(
    target: str,
    *,
    size: int,
    inodes: int,
    flags: int = NOSUID | NODEV,
    mode: str = "0755",
    kernel: calls.Kernel = calls.NOW,
) -> None:
    """Mount a private tmpfs of that size."""
    mount("tmpfs", target, "tmpfs", flags, "size=%d,nr_inodes=%d,mode=%s" % (size, inodes, mode), kernel=kernel)


def proc(target: str = "/proc", *, options: str = "", kernel: calls.Kernel = calls.NOW) -> None:
    """Mount a /proc that shows the processes of our own pid namespace only."""
    mount("proc", target, "proc", NOSUID | NODEV | NOEXEC, options, kernel=kernel)


def isolate_propagation() -> None:
    """Hide later mounts from other mount namespaces."""
    mount("none", "/", None, _REC | _PRIVATE)


def bind(source: str, target: str, flags: int = RDONLY | NOSUID | NODEV) -> None:
    """Show `source` at `target`, with the flags on every mount below it too."""
    mount(source, target, None, _BIND | _REC)
    wanted = _Attributes(flags, 0, _PRIVATE, 0)
    calls.syscall(
        "mount_setattr",
        _AT_FDCWD,
        ctypes.c_char_p(os.fsencode(target)),
        _AT_RECURSIVE,
        ctypes.byref(wanted),
        ctypes.sizeof(wanted),
    )


def show(source: str, target: str, *, kernel: calls.Kernel = calls.NOW) -> None:
    """Show a folder of a mount of our own at a second path, with its present flags."""
    mount(source, target, None, _BIND, kernel=kernel)


def enter_new_root(stage: str) -> None:
    """Make a fresh tmpfs the root, with the former root under /.host; `stage` is any directory, covered meanwhile."""
    tmpfs(stage, size=1 << 20, inodes=4096)
    os.mkdir(stage + "/.host")
    calls.syscall("pivot_root", ctypes.c_char_p(os.fsencode(stage)), ctypes.c_char_p(os.fsencode(stage + "/.host")))
    os.chdir("/")


def leave_old_root() -> None:
    """Unmount the host's root, and make our own read-only."""
    calls.check(calls.libc.umount2(b"/.host", _DETACH), "umount2 /.host")
    os.rmdir("/.host")
    mount("none", "/", None, _REMOUNT | RDONLY | NOSUID | NODEV, "size=1048576,nr_inodes=4096,mode=0755")
