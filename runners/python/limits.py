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
_ALWAYS = {"RLIMIT_CORE": 1, "RLIMIT_SIGPENDING": 256, "RLIMIT_MSGQUEUE": 819200}


def is_known_everywhere(kind: int) -> bool:
    """Whether a kernel that does not let it be set is no kernel for us. gVisor knows none of the others."""
    return kind in _KINDS.values()


def of_plan(plan: dict[str, Any]) -> dict[int, int]:
    """What a guard takes on itself, for what it forks to have it: {resource: limit}."""
    kinds = {getattr(resource, kind): value for kind, value in _ALWAYS.items() if hasattr(resource, kind)}
    always = {kind: _not_raised(kind, value) for kind, value in kinds.items()}
    return {**lowered(plan["limits"], held=plan["held"]), **always}


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
