"""Keys: the name of an environment or of a package tree says everything that it was made from, and by what.

An equal key leaves nothing to compare. The builder is part of the key, so that a changed builder makes new
environments instead of trusting old ones.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from sandbox.environments.lock import Lock, LockedPackage

_FORMAT: Final = 2


def environment_key(lock: Lock, interpreter_digest: str, *, builder_digest: str) -> str:
    """The key of what `lock` comes to on that interpreter, built by that builder."""
    return _digest("environment", lock.digest, interpreter_digest, builder_digest)


def tree_key(package: LockedPackage, interpreter: str, builder_digest: str) -> str:
    """The key of one wheel, unpacked and compiled for interpreters with that tag."""
    return _digest("tree", package.name, package.version, package.wheel, package.sha256, interpreter, builder_digest)


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps([_FORMAT, *parts], separators=(",", ":")).encode()).hexdigest()
