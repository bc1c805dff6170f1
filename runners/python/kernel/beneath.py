"""Opening one name in a folder, so that the kernel itself refuses whatever leads elsewhere.

`openat2` (Linux 5.6) is told that the whole way to what is opened must lie below the folder, and follow no link,
neither a symbolic one nor one of /proc's to an open file. A kernel without it, gVisor's, or a filter that forbids it
leaves `openat`, to which a single name is handed: that follows no link at its end with `O_NOFOLLOW`, and has no other
way. Either is safe by itself where names are opened one by one; whoever calls this looks at what was opened anyway.
"""

from __future__ import annotations

import errno
import os
import struct

from kernel import calls

_NO_MAGIC_LINKS, _NO_SYMBOLIC_LINKS, _BENEATH = 0x02, 0x04, 0x08
_LARGE = {"aarch64": 0o400000}.get(os.uname().machine, 0o100000)
"""Which `openat` adds by itself, for files over 2 GiB."""
_HOW = struct.Struct("=QQQ")
_MISSING = (errno.ENOSYS, errno.EPERM)


def open_beneath(name: str, flags: int, *, folder: int | None) -> int:
    """A descriptor of what has that name in the folder, or in the current one; OSError, also where a link is in the
    way. The name is one name, not a path."""
    if "/" in name or name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "%r is no single name" % name)
    how = _HOW.pack(flags | _LARGE, 0, _BENEATH | _NO_SYMBOLIC_LINKS | _NO_MAGIC_LINKS)
    at = calls.AT_FDCWD if folder is None else folder
    try:
        return calls.syscall("openat2", at, os.fsencode(name), how, len(how))
    except OSError as error:
        if error.errno not in _MISSING:
            raise
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
