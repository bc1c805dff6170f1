"""Landlock: a process gives up access to files, TCP ports, signals and abstract sockets, without any privilege.

The contract, from landlock(7):

* A ruleset names the accesses it handles. A handled access is denied unless a rule allows it; all other accesses stay
  free. The kernel's ABI version decides which accesses can be handled, so the report of `restrict` says which are in
  force and which this kernel lacks, and the caller decides whether that is enough.
* A rule allows accesses beneath a path, by the inode that the path names now. A rule about anything but a directory
  must not name accesses that only directories have (EINVAL).
* `landlock_restrict_self` needs no_new_privs (or CAP_SYS_ADMIN), binds this thread and all its later children, root as
  well, and is never undone. Rulesets add up: each must allow an access.
* Open descriptors stay usable and keep the rights they were opened with.
* A process that is bound by filesystem rules cannot change mounts (EPERM). So Landlock comes after the mounts.
* `execute` means execve only: libraries are mapped, and scripts are read, from wherever reading is allowed.
* With ABI 1 no file can be moved or linked into another directory (EXDEV), whatever the rules say.

TCP is all of the network that Landlock knows: namespaces and seccomp cover UDP, and unix sockets with a path.
"""

from __future__ import annotations

import os
import stat
import struct

from kernel import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# (name, bit, first ABI that knows it)
_FILESYSTEM = (
    ("execute", 1 << 0, 1),
    ("write_file", 1 << 1, 1),
    ("read_file", 1 << 2, 1),
    ("read_dir", 1 << 3, 1),
    ("remove_dir", 1 << 4, 1),
    ("remove_file", 1 << 5, 1),
    ("make_char", 1 << 6, 1),
    ("make_dir", 1 << 7, 1),
    ("make_reg", 1 << 8, 1),
    ("make_sock", 1 << 9, 1),
    ("make_fifo", 1 << 10, 1),
    ("make_block", 1 << 11, 1),
    ("make_sym", 1 << 12, 1),
    ("refer", 1 << 13, 2),
    ("truncate", 1 << 14, 3),
    ("ioctl_dev", 1 << 15, 5),
)
_NETWORK = (("bind_tcp", 1 << 0, 4), ("connect_tcp", 1 << 1, 4))
_SCOPES = (("abstract_unix_socket", 1 << 0, 6), ("signal", 1 << 1, 6))

_BITS = {name: bit for name, bit, _ in _FILESYSTEM}


def _bits(*names: str) -> int:
    return sum(_BITS[name] for name in names)


READ, READ_EXECUTE, READ_WRITE = "read", "read_execute", "read_write"

_ACCESSES = {
    READ: _bits("read_file", "read_dir"),
    READ_EXECUTE: _bits("read_file", "read_dir", "execute"),
    # No devices can be made, and no file written here can be executed. ioctl_dev is for devices that a rule names.
    READ_WRITE: _bits("read_file", "read_dir", "write_file", "truncate", "remove_dir", "remove_file", "refer")
    | _bits("make_dir", "make_reg", "make_sock", "make_fifo", "make_sym", "ioctl_dev"),
}
_NOT_ONLY_DIRECTORIES = _bits("execute", "write_file", "read_file", "truncate", "ioctl_dev")

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1


def abi() -> int:
    """Return the kernel's Landlock version; 0 if Landlock is missing, switched off, or hidden by a filter."""
    try:
        return calls.syscall("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


class Ruleset:
    """Rules that are being collected; they are in force from `enforce` on. Close it, or use it in a `with`."""

    def __init__(self, *, version: int, network: bool, kernel: calls.Kernel = calls.NOW) -> None:
        self._kernel = kernel
        self._filesystem = _known(_FILESYSTEM, version)
        ports = 0 if network else _known(_NETWORK, version)
        # The structure grew with the ABI; older kernels take the longer form while what they do not know is zero.
        attributes = struct.pack("=QQQ", self._filesystem, ports, _known(_SCOPES, version))
        self._descriptor = kernel.open("landlock_create_ruleset", attributes, len(attributes), 0)

    def allow(self, path: str, access: str) -> None:
        """Allow READ, READ_EXECUTE or READ_WRITE of `path` and all beneath it; raise OSError for a missing path."""
        accesses = _ACCESSES[access] & self._filesystem
        if not stat.S_ISDIR(os.stat(path).st_mode):
            accesses &= _NOT_ONLY_DIRECTORIES
        parent = self._kernel.open("openat", calls.AT_FDCWD, os.fsencode(path), os.O_PATH | os.O_CLOEXEC, about=path)
        try:
            rule = struct.pack("=Qi", accesses, parent)
            self._kernel.make("landlock_add_rule", self._descriptor, _RULE_PATH_BENEATH, rule, 0)
        finally:
            self._kernel.close(parent)

    def enforce(self) -> None:
        """Bind this process and its later children, for good."""
        self._kernel.make("landlock_restrict_self", self._descriptor, 0)

    def close(self) -> None:
        self._kernel.close(self._descriptor)

    def __enter__(self) -> Ruleset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def restrict(rules: Iterable[tuple[str, str]], *, network: bool, kernel: calls.Kernel = calls.NOW) -> dict[str, object]:
    """Leave this process only the paths of the rules, and TCP only with `network`; return a report of the restrictions.

    `rules` are pairs of a path and READ, READ_EXECUTE or READ_WRITE. Without Landlock nothing happens, and the report
    has ABI 0 and every access under `missing`. Raise OSError when a path is missing or no_new_privs is not set: then no
    restriction is in force either.
    """
    version = abi()
    if version:
        with Ruleset(version=version, network=network, kernel=kernel) as ruleset:
            for path, access in rules:
                ruleset.allow(path, access)
            ruleset.enforce()
    return _report(version, network=network)


def keep_signals_in(*, kernel: calls.Kernel = calls.NOW) -> None:
    """Let this process and its later children signal no process but each other, from now on.

    The report of `restrict` names "signal" under `scoped` if the kernel can do this. no_new_privs is required here too.
    """
    attributes = struct.pack("=QQQ", 0, 0, sum(bit for name, bit, _ in _SCOPES if name == "signal"))
    descriptor = kernel.open("landlock_create_ruleset", attributes, len(attributes), 0)
    kernel.make("landlock_restrict_self", descriptor, 0)
    kernel.close(descriptor)


def _report(version: int, *, network: bool) -> dict[str, object]:
    wanted = {"filesystem": _FILESYSTEM, "network": () if network else _NETWORK, "scoped": _SCOPES}
    report: dict[str, object] = {"abi": version}
    missing = []
    for kind, table in wanted.items():
        report[kind] = [name for name, _, since in table if since <= version]
        missing += [name for name, _, since in table if since > version]
    report["missing"] = missing
    return report


def _known(table: tuple[tuple[str, int, int], ...], version: int) -> int:
    return sum(bit for _, bit, since in table if since <= version)
