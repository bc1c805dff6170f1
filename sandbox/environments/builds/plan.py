"""What a build is told: which environment, from what, by which means, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandbox.environments.indexes.settings import IndexSettings
from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.key import tree_key
from sandbox.environments.lock import LockedPackage
from sandbox.environments.model import Environment
from sandbox.environments.resolution.questions import Resolution
from sandbox.policy import Policy


@dataclass(frozen=True, slots=True)
class Means:
    """What is known of a build before its lock is."""

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


@dataclass(frozen=True, slots=True)
class Plan:
    """One environment to build."""

    key: str
    resolution: Resolution
    means: Means

    @property
    def packages(self) -> tuple[LockedPackage, ...]:
        """What is installed."""
        return self.resolution.lock.packages

    def tree_key(self, package: LockedPackage) -> str:
        """What the package's tree is called."""
        return tree_key(package, self.means.interpreter.tag, self.means.builder_digest)
