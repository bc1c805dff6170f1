"""The limits that the kernel counts for each process."""

from __future__ import annotations

import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_KINDS = {
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "processes": resource.RLIMIT_NPROC,
}
# Waiting signals, timers and message queues are counted per user and namespace. A core of one byte is none, and unlike
# none at all, it is not handed to a program of the host's either.
_MIN_FILES_OF_TEMPLATE = 256
"""An order brings a dozen descriptors."""
_ALWAYS = {"RLIMIT_CORE": 1, "RLIMIT_SIGPENDING": 256, "RLIMIT_MSGQUEUE": 819200}


def is_known_everywhere(kind: int) -> bool:
    """Whether a kernel that does not let it be set is no kernel for us. gVisor knows none of the others."""
    return kind in _KINDS.values()


def of_plan(plan: dict[str, Any]) -> dict[int, int]:
    """What a guard takes on itself, for what it forks to have it: {resource: limit}."""
    kinds = {getattr(resource, kind): value for kind, value in _ALWAYS.items() if hasattr(resource, kind)}
    always = {kind: _not_raised(kind, value) for kind, value in kinds.items()}
    return {**lowered(plan["limits"], held=plan["held"]), **always}


def of_template(plan: dict[str, Any]) -> dict[int, int]:
    """Return the limits of a process that imports packages for many calls: those of one call, with room to fork.

    The kernel counts processes per user, which here includes all calls of the box, so their number cannot be limited
    this way: the control group does that, or the zygote watches. The zygote bounds processor time, too.
    """
    found = of_plan(dict(plan, limits={name: value for name, value in plan["limits"].items() if name != "processes"}))
    found[resource.RLIMIT_NOFILE] = max(found.get(resource.RLIMIT_NOFILE, 0), _MIN_FILES_OF_TEMPLATE)
    found.pop(resource.RLIMIT_CPU, None)
    if resource.RLIMIT_DATA in found:
        found[resource.RLIMIT_DATA] = 2 * found[resource.RLIMIT_DATA]
    return {kind: _not_raised(kind, limit) for kind, limit in found.items()}


def impose(pid: int, limits: Mapping[int, int]) -> None:
    """Put them in force for another process; OSError if it lowered one of them below that."""
    for kind, limit in limits.items():
        resource.prlimit(pid, kind, (limit, limit))


def lowered(limits: Mapping[str, int], *, held: int) -> dict[int, int]:
    """What these limits come to for this process: what is lower already stays. Data that is `held` already is not the
    call's."""
    found = {}
    for name, wanted in limits.items():
        limit = wanted + (held if name == "data" else 0)
        found[_KINDS[name]] = _not_raised(_KINDS[name], limit)
    return found


def _not_raised(kind: int, limit: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def lower(limits: Mapping[int, int]) -> None:
    """Put them in force for this process."""
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
