"""The plan of a build: which environment, from which lock, by which means, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.environments.build_context import BuildContext
from sandbox.environments.key import tree_key
from sandbox.environments.lock import LockedPackage
from sandbox.environments.resolution.request import Resolution


@dataclass(frozen=True, slots=True)
class Plan:
    """An environment to build."""

    key: str
    resolution: Resolution
    means: BuildContext

    @property
    def packages(self) -> tuple[LockedPackage, ...]:
        """The packages to install."""
        return self.resolution.lock.packages

    def tree_key(self, package: LockedPackage) -> str:
        """Return the key of the package's tree."""
        return tree_key(package, self.means.interpreter.tag, self.means.builder_digest)
