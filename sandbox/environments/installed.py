"""An environment of the store as boxes are opened with it, and whether it is still there.

A store is a cache, and people remove caches. A box that shows a folder which was removed finds nothing in it, also when
an equal one is in its place by then: so each copy has an identity of its own.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sandbox.environments.build_context import bare
from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.interpreters.skeleton import site_folder
from sandbox.environments.model import Environment
from sandbox.environments.store.store import StoredEnvironment


def environment_of(stored: StoredEnvironment, interpreter: HostInterpreter) -> Environment:
    """Return the stored environment for that interpreter."""
    site = site_folder(interpreter)
    return replace(
        bare(interpreter),
        key=stored.key,
        lock_digest=stored.manifest.lock.digest,
        installed=stored.folder,
        site=site,
        copy=_copy_in(stored.folder, site),
        modules=frozenset(stored.manifest.modules),
    )


def is_there(environment: Environment) -> bool:
    """Whether what is installed for it is still what it was; that packages were removed shows as well."""
    if environment.installed is None:
        return True
    try:
        return _copy_in(environment.installed, environment.site) == environment.copy
    except OSError:
        return False


def _copy_in(installed: Path, site: str) -> tuple[int, ...]:
    status = os.stat(f"{installed}/{site}")
    return status.st_ino, status.st_mtime_ns
