"""What a build is told: which environment, from what, by which means, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.environments.build_context import Means
from sandbox.environments.key import tree_key
from sandbox.environments.lock import LockedPackage
from sandbox.environments.resolution.request import Resolution


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
