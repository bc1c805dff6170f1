"""Memory for the bytes of calls that no child of this process ever sees.

A fork copies everything the parent has in memory, and a tool can read all of its own memory. So what passes through
the zygote for one call must not be there when a child for another is forked. The kernel can leave a mapping empty in
every child (MADV_WIPEONFORK, Linux 4.14); bytes of calls are received into such mappings, looked at and sent on from
there, and never become Python objects, which would leave copies all over the heap.
"""

from __future__ import annotations

import mmap

_MADV_WIPEONFORK = 18


def region(size: int) -> memoryview:
    """A writable mapping of that many bytes."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        mapping.madvise(_MADV_WIPEONFORK)
    except (AttributeError, OSError):  # not Linux, or too old for it
        pass
    return memoryview(mapping)


def keep(data: memoryview) -> memoryview:
    """A copy that lasts."""
    kept = region(max(len(data), 1))[: len(data)]
    kept[:] = data
    return kept
