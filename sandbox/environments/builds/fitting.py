"""Fitting: whether a lock is one for the very release of Python that it is built for.

Its wheels fit any release of its kind of interpreter. The requirements of packages may differ from one release to
the next, as with `async-timeout; python_full_version < "3.11.3"`. So what depends on the release is looked up in the
metadata of packages, once they are verified, when a lock was made for another release, or says of none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from email.parser import HeaderParser
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.lock import Lock
from sandbox.environments.store.tree_report import TreeReport
from sandbox.errors import BuildFailed

_MAX_READ: Final = 1 << 20
_METADATA: Final = re.compile(r"[^/]+\.dist-info/METADATA")
_ON_RELEASES: Final = re.compile(r"\b(python_full_version|implementation_version)\b")


def refuse_unfit(lock: Lock, trees: Iterable[TreeReport], interpreter: HostInterpreter) -> None:
    """Raise `BuildFailed` if the lock lacks what its packages require on this release, or has what does not run on
    it."""
    if lock.python == interpreter.version:
        return
    problems = list(_problems(lock, trees, interpreter))
    if problems:
        made_for = f"the lock was made for Python {lock.python}, and " if lock.python else ""
        raise BuildFailed(
            f"{made_for}on {interpreter.version} {'; '.join(problems[:5])}"[:1000],
            remedy=f"lock again, with `--python '=={interpreter.version}'`"
            + (f", or build it with `--python '=={lock.python}'`" if lock.python else ""),
        )


def _problems(lock: Lock, trees: Iterable[TreeReport], interpreter: HostInterpreter) -> Iterator[str]:
    versions = {package.name: package.version for package in lock.packages}
    extras: dict[str, set[str]] = {
        canonicalize_name(each.name): each.extras for each in map(Requirement, lock.requirements)
    }
    for line in lock.requirements:
        yield from _unmet(line, versions, interpreter, by="the tool", extras=())
    for tree in trees:
        name = f"{tree.facts.name} {tree.facts.version}"
        runs_on, required = _stated(tree)
        if not _takes(runs_on, interpreter.version):
            yield f"{name} does not run: it requires Python {runs_on}"
        for line in required:
            yield from _unmet(line, versions, interpreter, by=name, extras=extras.get(tree.facts.name, ()))


def _unmet(
    line: str, versions: Mapping[str, str], interpreter: HostInterpreter, *, by: str, extras: Iterable[str]
) -> Iterator[str]:
    """Yield the requirement that depends on the release and that the lock does not have."""
    try:
        wanted = Requirement(line) if _ON_RELEASES.search(line) else None
    except InvalidRequirement:
        return
    if wanted is None or wanted.marker is None:
        return
    if not any(wanted.marker.evaluate({**interpreter.markers, "extra": extra}) for extra in ("", *extras)):
        return
    version = versions.get(canonicalize_name(wanted.name))
    if version is None or not wanted.specifier.contains(version, prereleases=True):
        yield f"{by} requires {wanted.name}{wanted.specifier}, which it does not have"


def _takes(requires_python: str | None, version: str) -> bool:
    try:
        return SpecifierSet(requires_python or "").contains(version, prereleases=True)
    except InvalidSpecifier:
        return True


def _stated(tree: TreeReport) -> tuple[str | None, list[str]]:
    """The versions of Python that a package says it runs on, and what it requires."""
    for file in tree.files:
        if _METADATA.fullmatch(file.path):
            with (tree.folder / file.path).open("rb") as text:
                headers = HeaderParser().parsestr(text.read(_MAX_READ).decode("utf-8", "replace"))
            return headers.get("Requires-Python"), [str(line) for line in headers.get_all("Requires-Dist", [])]
    return None, []
