"""The means that environments are made by: the interpreter alone, the programs, and how much a build may cost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandbox.environments.bare import bare_environment
from sandbox.environments.indexes.settings import IndexSettings
from sandbox.environments.interpreters.host import HostInterpreter, own_interpreter
from sandbox.environments.model import Environment
from sandbox.environments.uv_binary import uv_program
from sandbox.policy import Network, NetworkMode, Policy, load
from sandbox.resources import find_folder


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The facts of a build that are known before its lock."""

    interpreter: HostInterpreter
    settings: IndexSettings
    policy: Policy
    """The build's own: no network, and limits of its own."""
    environment: Environment
    """The interpreter alone."""
    disk: int
    """Bytes that unpacking may leave."""
    builder_digest: str
    uv: Path
    tenant: str = ""
    is_verifying: bool = False
    """Whether what the store has is read again before anything is made of it."""


def create_context(
    interpreter: HostInterpreter, settings: IndexSettings, *, policy: Policy, tenant: str
) -> BuildContext:
    """Return the context that a policy grants."""
    return BuildContext(
        interpreter=interpreter,
        settings=settings,
        policy=job_policy(policy, NetworkMode.NONE),
        environment=bare(interpreter),
        disk=policy.environment.build_disk,
        builder_digest=builder_digest(),
        uv=uv_program(),
        tenant=tenant,
        is_verifying=policy.environment.verify,
    )


def bare(interpreter: HostInterpreter) -> Environment:
    """An interpreter with its standard library and nothing else."""
    if interpreter == own_interpreter():
        return bare_environment()
    return Environment(
        key=interpreter.digest,
        lock_digest=bare_environment().lock_digest,
        python=interpreter.python,
        version=interpreter.version,
        folders=interpreter.folders,
        hidden=interpreter.hidden,
    )


def job_policy(policy: Policy, mode: NetworkMode) -> Policy:
    """Return the policy of a build's boxes: the shipped policy for builds, as far as this policy lets environments
    cost."""
    granted, costs = load("packages"), policy.environment
    limits = granted.limits.model_copy(
        update={"wall": costs.build_time, "memory": costs.build_memory, "cpu": costs.build_time * granted.limits.cpus}
    )
    return granted.model_copy(update={"limits": limits, "network": Network(mode=mode)})


@cache
def builder_digest() -> str:
    """Exactly what builds environments here: a change of it makes new environments, and leaves the old ones alone."""
    from importlib.metadata import version

    programs = sorted((find_folder("runners") / "builder").glob("*.py"))
    parts = [version("uv"), *(hashlib.sha256(path.read_bytes()).hexdigest() for path in programs)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
