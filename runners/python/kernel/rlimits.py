"""setrlimit(2) and prlimit(2): the limits that the kernel counts for each process."""

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
_MIN_FILES_OF_TEMPLATE = 256
"""An order brings a dozen descriptors."""
# Pending signals, timers and message queues are counted per user and namespace. A limit of one byte prevents core
# files, and, unlike zero, also keeps the kernel from piping the core to a program of the host.
_ALWAYS = {"RLIMIT_CORE": 1, "RLIMIT_SIGPENDING": 256, "RLIMIT_MSGQUEUE": 819200}


def is_known_everywhere(kind: int) -> bool:
    """Whether every supported kernel can set this limit. gVisor lacks the others."""
    return kind in _KINDS.values()


def of_plan(plan: dict[str, Any]) -> dict[int, int]:
    """Return the limits that a guard sets for itself, so that its forks inherit them: {resource: limit}."""
    kinds = {getattr(resource, kind): value for kind, value in _ALWAYS.items() if hasattr(resource, kind)}
    always = {kind: _cap_at_hard_limit(kind, value) for kind, value in kinds.items()}
    return {**compute(plan["limits"], held=plan["held"]), **always}


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
    return {kind: _cap_at_hard_limit(kind, limit) for kind, limit in found.items()}


def impose(pid: int, limits: Mapping[int, int]) -> None:
    """Set limits of another process; raise OSError if that process lowered one of them below the value."""
    for kind, limit in limits.items():
        resource.prlimit(pid, kind, (limit, limit))


def compute(limits: Mapping[str, int], *, held: int) -> dict[int, int]:
    """Return the limits for this process by resource; a lower limit stays. `held` bytes of data are not the call's."""
    found = {}
    for name, wanted in limits.items():
        limit = wanted + (held if name == "data" else 0)
        found[_KINDS[name]] = _cap_at_hard_limit(_KINDS[name], limit)
    return found


def _cap_at_hard_limit(kind: int, limit: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def lower(limits: Mapping[int, int]) -> None:
    """Set limits of this process."""
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
