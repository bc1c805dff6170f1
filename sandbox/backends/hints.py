"""The purpose of each layer of isolation, and remedies for hosts that lack a layer or have run out of resources."""

from __future__ import annotations

import errno
import os
import re
from copy import copy
from typing import Final

from sandbox.backends.base import Protection
from sandbox.errors import BackendUnavailable, HostExhausted, IsolationUnavailable, SandboxError
from sandbox.outcome import LayerState
from sandbox.policy import Layer, Policy, Strength

PURPOSES: Final[dict[str, str]] = {
    "user_namespace": "privileges inside mean nothing outside",
    "mount_namespace": "the host's files are not there",
    "pid_namespace": "other processes cannot be seen or signalled; the whole tree dies at once",
    "network_namespace": "no network but a private loopback",
    "ipc_namespace": "no shared memory or queues with others",
    "uts_namespace": "the host's name is not shown",
    "cgroup_namespace": "the host's control groups are not shown",
    "seccomp": "system calls that tools do not need are refused",
    "landlock": "files, signals and sockets outside stay out of reach, even were a namespace to fail",
    "no_new_privs": "no program can gain rights, setuid or not",
    "capabilities": "no privilege of root is left",
    "rlimits": "each process is limited in files, sizes and memory",
    "cgroup": "memory, processes and processor time of the whole tree are counted and limited by the kernel",
    "own_uid": "each box runs as a user of its own",
}

_NAMESPACES: Final = (
    "allow unprivileged user namespaces: sysctl user.max_user_namespaces above 0, and on Debian "
    "kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; or, as "
    "root, have all of root's capabilities"
)

_SEEN_FROM_OUTSIDE: Final = (Layer.CGROUP, Layer.OWN_UID)

REMEDIES: Final[dict[str, str]] = {
    **{f"{kind}_namespace": _NAMESPACES for kind in ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")},
    "seccomp": "use a kernel built with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
    "landlock": "use Linux 5.13 or later with landlock among the security modules (lsm= on the kernel's command line)",
    "no_new_privs": "use Linux 3.5 or later",
    "capabilities": "nothing should prevent this; report it with the output of `sandbox doctor --json`",
    "rlimits": "nothing should prevent this; report it with the output of `sandbox doctor --json`",
    "cgroup": "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes …",
    "own_uid": "run the engine as root with all of root's capabilities; or as another user, whose boxes share its user "
    "id, behind a user namespace",
    "egress filter": "use boxes of processes, or containers of a daemon on this machine that share its kernel; or a "
    "policy with network.mode 'none', or 'host' for code you trust",
    "index filter": "use a policy with network.mode 'none' or 'public'; that of mode 'index' is for builds",
    "container": "use the container backend",
    "machine": "use a backend that gives each box a kernel of its own",
}


_SHORTAGES: Final[dict[str, str]] = {
    os.strerror(errno.EMFILE): "let the engine have more open files: raise `ulimit -n`",
    os.strerror(errno.ENFILE): "let the host have more open files: raise sysctl fs.file-max",
    os.strerror(
        errno.EAGAIN
    ): "let the engine's user have more processes: raise `ulimit -u`, or the limit of processes of "
    "the service or container it is in",
    os.strerror(errno.ENOMEM): "free memory, or raise the limit of memory of the service or container the engine is in",
    os.strerror(errno.EFBIG): "let the engine write larger files: raise `ulimit -f`",
}
"""Remedies by the kernel's words for an error, which the runner passes on."""
_NOTHING_STARTS: Final = "no box or call can be started here"
_NAMED_POLICY: Final = re.compile(r"policy '[^']*'")


def missing_walls(layers: list[str], *, policy: Policy, reason: str) -> BackendUnavailable:
    """Return the error about missing layers, with a remedy."""
    # A layer that failed for a shortage of resources is not missing, so it must not lead to a weaker box.
    names = ", ".join(layers)
    shortage = remedy_of_shortage(reason)
    if shortage is not None:
        return HostExhausted(f"{_NOTHING_STARTS}: {names} ({reason[:300]})", remedy=shortage)
    remedy = next((REMEDIES[layer] for layer in layers if layer in REMEDIES), None)
    message = f"policy '{policy.name}' cannot be enforced here: {names} ({reason[:300]})"
    return IsolationUnavailable(message, missing=tuple(layers), remedy=remedy)


def failed_start(what: str, error: OSError) -> BackendUnavailable:
    """Return the error about a failed step, or about the shortage of resources that caused the failure."""
    shortage = remedy_of_shortage(str(error))
    if shortage is not None:
        return HostExhausted(f"{_NOTHING_STARTS}: {error}", remedy=shortage)
    return BackendUnavailable(f"{what}: {error}")


def error_for(caller: Policy, error: SandboxError) -> SandboxError:
    """Return a copy of an error about a box, with the name of the caller's policy."""
    # Several callers may wait for one box, because policies that grant the same share boxes.
    own = copy(error)
    if isinstance(own, IsolationUnavailable):
        own.message = _NAMED_POLICY.sub(f"policy '{caller.name}'", own.message, count=1)
        own.args = (own.message,)
    return own


def remedy_of_shortage(reason: str) -> str | None:
    """Return the remedy for a shortage of resources; None if the reason names none."""
    return next((remedy for words, remedy in _SHORTAGES.items() if words in reason), None)


def refuse_weaker(protection: Protection, *, policy: Policy) -> None:
    """Raise unless the backend sees from outside that a box has everything that the policy requires."""
    missing = [layer.value for layer in policy.isolation.require if not _is_promised(layer, protection)]
    if missing:
        found = [protection.layers[layer] for layer in missing if layer in protection.layers]
        reason = "; ".join(map(_doubt, found)) or "the backend does not say"
        raise missing_walls(missing, policy=policy, reason=reason)
    if Strength(protection.isolation.value) < policy.isolation.minimum:
        reason = f"a box of backend '{protection.backend}' is a {protection.isolation.value}"
        raise missing_walls([policy.isolation.minimum.value], policy=policy, reason=reason)


def _doubt(state: LayerState) -> str:
    """Return the reason why a layer does not count."""
    return f"{state.detail}, but trusted code neither set it up nor read it" if state.in_force else state.detail


def _is_promised(layer: Layer, protection: Protection) -> bool:
    """Return whether the layer may be in force, as far as the backend knows."""
    # A call measures the layers that the backend does not mention, except for those that are visible only from outside.
    state = protection.layers.get(layer.value)
    return layer not in _SEEN_FROM_OUTSIDE if state is None else state.counts
