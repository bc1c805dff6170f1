"""Locks that somebody brought, in place of requirements.

Whoever made one may have done so under another policy, and on another machine, or by hand. So a lock is taken only as
far as its requirements would be, with all that they come to, and is built for the interpreter that it names, be that
the engine's own or another of this host; of the very release that it was made for, where there is that. It says
nothing of where its wheels are.
"""

from __future__ import annotations

from sandbox.environments.interpreters.host import HostInterpreter, interpreter_tagged
from sandbox.environments.lock import Lock
from sandbox.environments.resolution.request import Resolution, refuse_too_many, refuse_unwanted, rules_of
from sandbox.environments.resolution.requirements import read_requirements
from sandbox.errors import EnvironmentUnavailable
from sandbox.policy import Policy


def take_lock(lock: Lock, *, policy: Policy) -> Resolution:
    """The lock as an answer; raises `RequirementRefused` or `ResolutionFailed` where the policy does not take it."""
    read_requirements(lock.requirements, supply=rules_of(policy.supply))
    refuse_too_many(len(lock.packages), policy.environment.packages)
    refuse_unwanted(lock.packages, policy.supply)
    return Resolution(lock=lock)


def interpreter_for(lock: Lock, requires_python: str | None) -> HostInterpreter:
    """The one that the lock is for, of a version that a tool wants; may look for all that this host has."""
    found = interpreter_tagged(lock.interpreter, requires_python, release=lock.python)
    if found is None:
        fitting = f" that fits requires-python '{requires_python}'" if requires_python else ""
        raise EnvironmentUnavailable(
            f"the lock is for {lock.interpreter}, and this host has no such interpreter{fitting}",
            remedy="lock again on this machine, or install the Python that it is for",
        )
    return found
