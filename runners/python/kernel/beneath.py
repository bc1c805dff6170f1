"""Open one name in a folder, so that the kernel itself refuses every way that leads elsewhere.

`openat2` (Linux 5.6) requires that the whole path lies below the folder and follows no link, neither a symbolic one nor
a link of /proc to an open file. A kernel without that call, gVisor's, or a filter that forbids it leaves `openat` with
a single name: with `O_NOFOLLOW` that follows no link at its end, and has no other way. Either is safe by itself where
names are opened one by one. Callers check the opened file anyway.
"""

from __future__ import annotations

import errno
import os
import struct

from kernel import calls

_NO_MAGIC_LINKS, _NO_SYMBOLIC_LINKS, _BENEATH = 0x02, 0x04, 0x08
_LARGE = {"aarch64": 0o400000}.get(os.uname().machine, 0o100000)
"""O_LARGEFILE, which `openat` adds by itself."""
_HOW = struct.Struct("=QQQ")
_MISSING = (errno.ENOSYS, errno.EPERM)


def open_beneath(name: str, flags: int, *, folder: int | None) -> int:
    """Open one name, not a path, in the folder or in the current one; raise OSError, also for a link."""
    if "/" in name or name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "%r is not a single name" % name)
    how = _HOW.pack(flags | _LARGE, 0, _BENEATH | _NO_SYMBOLIC_LINKS | _NO_MAGIC_LINKS)
    at = calls.AT_FDCWD if folder is None else folder
    try:
        return calls.syscall("openat2", at, os.fsencode(name), how, len(how))
    except OSError as error:
        if error.errno not in _MISSING:
            raise
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
