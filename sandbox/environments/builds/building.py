"""From a lock to an environment in the store.

    wheels        what is missing is downloaded by the engine: bytes, checked against the lock
    job           a box without any network unpacks each missing wheel into a folder of its own and compiles it
    trees         the box is gone: what it left is verified, made the engine's own, and published, one tree per wheel
    environment   a skeleton with hard links into the trees, published by rename

A kill at any moment leaves the store as it was, with a folder under `building/` that a later prune removes. Trees that
were published by then are found by the next attempt: no wheel is unpacked twice.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from sandbox.environments.builds.adopting import TreeCaps, adopt_tree
from sandbox.environments.builds.linking import Linked, link_tree
from sandbox.environments.builds.wheels import fetch_wheels
from sandbox.environments.disk.building_folder import BuildingFolder
from sandbox.environments.disk.places import writing
from sandbox.environments.disk.stock import Stock, StoredFile, list_digest, take_stock
from sandbox.environments.indexes.settings import IndexSettings
from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.environments.interpreters.skeleton import make_skeleton, site_folder
from sandbox.environments.key import tree_key
from sandbox.environments.lock import LockedPackage
from sandbox.environments.model import Environment
from sandbox.environments.progress import OnProgress, Progress
from sandbox.environments.resolution.questions import Resolution
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.store.store import CONTENT, Store, StoredEnvironment
from sandbox.environments.store.tree_report import TreeReport
from sandbox.environments.store.trees import load_tree, publish_tree
from sandbox.environments.threads import to_its_end
from sandbox.environments.workshop import BUILD, Job, JobEnd, Workshop, open_folder
from sandbox.errors import BuildFailed, StoreUnwritable
from sandbox.policy import Policy

ENVIRONMENT: Final = "/environment"
"""Where a box sees an environment; bytecode and scripts name it."""
_MOST_SAID: Final = 2000
_NO_ROOM: Final = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True, slots=True)
class Plan:
    """One environment to build."""

    key: str
    resolution: Resolution
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

    @property
    def packages(self) -> tuple[LockedPackage, ...]:
        """What is installed."""
        return self.resolution.lock.packages

    def tree_key(self, package: LockedPackage) -> str:
        """What the package's tree is called."""
        return tree_key(package, self.interpreter.tag, self.builder_digest)


async def build(plan: Plan, *, store: Store, workshop: Workshop, tell: OnProgress) -> StoredEnvironment:
    """Make the environment and publish it; raises `BuildFailed` or `IndexUnavailable`. Called under the key's lock."""
    with store.new_building_folder() as building:
        trees = await asyncio.to_thread(_known_trees, plan, store)
        missing = [package for package in plan.packages if package.name not in trees]
        await to_its_end(partial(_make_skeleton, plan, building, store))
        if missing:
            trees |= await _make_trees(plan, missing, building=building, store=store, workshop=workshop, tell=tell)
        tell(Progress("publish", _counted(plan.packages), len(plan.packages), len(plan.packages)))
        return await to_its_end(partial(_assemble, plan, trees, building, store))


def _counted(packages: Sequence[LockedPackage]) -> str:
    return "1 package" if len(packages) == 1 else f"{len(packages)} packages"


def _known_trees(plan: Plan, store: Store) -> dict[str, TreeReport]:
    """The trees that the store has, by the names of their packages."""
    found = {package.name: load_tree(store, plan.tree_key(package)) for package in plan.packages}
    return {name: tree for name, tree in found.items() if tree is not None}


def _make_skeleton(plan: Plan, building: BuildingFolder, store: Store) -> None:
    with writing(f"the environment {plan.key[:12]}"):
        make_skeleton(plan.interpreter, kept_in=store.root / "skeletons", folder=building.folder / CONTENT)


async def _make_trees(
    plan: Plan,
    missing: Sequence[LockedPackage],
    *,
    building: BuildingFolder,
    store: Store,
    workshop: Workshop,
    tell: OnProgress,
) -> dict[str, TreeReport]:
    over = threading.Event()
    try:
        wheels = await asyncio.to_thread(_fetch, plan, missing, building, store, _until(over, tell))
    finally:
        over.set()
    tell(Progress("unpack", _counted(missing), 0, len(missing)))
    unpacked = await asyncio.to_thread(open_folder, building.folder / "unpacked")
    end = await workshop.run(_job(plan, missing, building, unpacked, tell))
    _refuse_failed(end)
    tell(Progress("verify", _counted(missing), len(missing), len(missing)))
    return await to_its_end(partial(_adopt, plan, missing, unpacked, wheels, store))


class _Abandoned(Exception):
    """Nobody waits for it any more."""


def _until(over: threading.Event, tell: OnProgress) -> OnProgress:
    """Tells until that is so, and then ends who tells: a thread cannot be cancelled otherwise."""

    def tell_or_end(event: Progress) -> None:
        if over.is_set():
            raise _Abandoned
        tell(event)

    return tell_or_end


def _fetch(
    plan: Plan, missing: Sequence[LockedPackage], building: BuildingFolder, store: Store, tell: OnProgress
) -> Mapping[str, Path]:
    """The wheels, side by side in a folder that the box can be shown."""

    def on_progress(name: str, done: int, total: int | None) -> None:
        tell(Progress("download", name, done, total))

    wheels = fetch_wheels(
        missing,
        settings=plan.settings,
        origins=plan.resolution.origins,
        store=store.wheels,
        on_progress=on_progress,
        within_s=plan.policy.limits.wall,
    )
    shown = building.folder / "wheels"
    with writing(f"the environment {plan.key[:12]}"):
        shown.mkdir(mode=0o755)
        for path in wheels.values():
            os.link(path, shown / path.name)
    return wheels


def _job(
    plan: Plan, missing: Sequence[LockedPackage], building: BuildingFolder, unpacked: Path, tell: OnProgress
) -> Job:
    site = site_folder(plan.interpreter)
    skeleton = Environment(
        **{name: getattr(plan.environment, name) for name in ("key", "lock_digest", "python", "version")},
        folders=plan.environment.folders,
        hidden=plan.environment.hidden,
        installed=building.folder / CONTENT,
        site=site,
    )
    return Job(
        program="unpack",
        entry="unpack",
        arguments={
            "packages": [[package.name, f"{package.name}=={package.version}"] for package in _smallest_first(missing)],
            "folder": BUILD,
            "seen_at": f"{ENVIRONMENT}/{site}",
            "workers": plan.policy.limits.cpus,
        },
        policy=plan.policy,
        interpreter=skeleton,
        folder=unpacked,
        disk=plan.disk,
        readable={"/uv": plan.uv, "/wheels": building.folder / "wheels"},
        tenant=plan.tenant,
        on_line=_Meter(len(missing), tell),
    )


def _smallest_first(packages: Iterable[LockedPackage]) -> list[LockedPackage]:
    return sorted(packages, key=lambda package: package.size or 0)


class _Meter:
    """Makes progress of what the box says of how far it is. That is of no consequence, so it may be believed."""

    def __init__(self, packages: int, tell: OnProgress) -> None:
        self._tell = tell
        self._packages = packages
        self._unpacked = self._compiled = self._modules = 0

    def __call__(self, line: str) -> None:
        word, _, what = line.partition(" ")
        count = int(what) if re.fullmatch(r"[0-9]{1,9}", what) else 0
        if word == "unpacked":
            self._unpacked = min(self._unpacked + 1, self._packages)
            self._tell(Progress("unpack", what, self._unpacked, self._packages))
        elif word == "compile":
            self._modules = count
            self._tell_compiled()
        elif word == "compiled":
            self._compiled = min(self._compiled + count, self._modules)
            self._tell_compiled()

    def _tell_compiled(self) -> None:
        text = "1 module" if self._modules == 1 else f"{self._modules} modules"
        self._tell(Progress("compile", text, self._compiled, self._modules))


def _refuse_failed(end: JobEnd) -> None:
    if end.problem is not None or not isinstance(end.value, dict):
        message = f"the wheels could not be unpacked: {end.problem} {end.said[-_MOST_SAID:]}".rstrip()
        raise _failure(message, log=end.said)
    failed = end.value.get("failed")
    if failed and isinstance(failed, dict):
        said = "; ".join(f"{name}: {' '.join(str(text).split())[-_MOST_SAID:]}" for name, text in failed.items())
        log = "\n\n".join(f"{name}:\n{text}" for name, text in failed.items())
        raise _failure(f"the wheels could not be unpacked: {said}", log=log)


def _failure(message: str, *, log: str) -> BuildFailed:
    """What is unpacked is written to the store's own disk, and only there can a job of ours run out of room."""
    if any(said in message for said in _NO_ROOM):
        return StoreUnwritable(message, remedy="make room, for example with `sandbox env prune`")
    return BuildFailed(message, log=log)


def _adopt(
    plan: Plan, missing: Sequence[LockedPackage], unpacked: Path, wheels: Mapping[str, Path], store: Store
) -> dict[str, TreeReport]:
    """What the box left, verified and published; nothing that runs can reach it any more."""
    made, left = {}, plan.disk
    for package in missing:
        caps = TreeCaps(bytes=left)
        report = adopt_tree(unpacked / package.name, wheel=package, archive=wheels[package.sha256], caps=caps)
        left = max(left - sum(file.size for file in report.files), 0)
        made[package.name] = publish_tree(store, report, plan.tree_key(package))
    return made


def _assemble(plan: Plan, trees: Mapping[str, TreeReport], building: BuildingFolder, store: Store) -> StoredEnvironment:
    """Only the skeleton is looked at: all that is linked is known, and read-only already."""
    content = building.folder / CONTENT
    site, programs = content / site_folder(plan.interpreter), content / "bin"
    with writing(f"the environment {plan.key[:12]}"):
        skeleton = take_stock(content)
        linked = [link_tree(trees[package.name], site, programs) for package in plan.packages]
    stock = _joined(skeleton, linked, trees.values())
    closed = frozenset(file.path for each in linked for file in each.files)
    return store.publish(building, _manifest(plan, trees, stock), files=stock.files, closed=closed)


def _joined(skeleton: Stock, linked: Sequence[Linked], trees: Iterable[TreeReport]) -> Stock:
    """Everything that is in an environment; where equal files of two packages have one name, the first is there."""
    by_path: dict[str, StoredFile] = {}
    for file in chain(skeleton.files, *(each.files for each in linked)):
        by_path.setdefault(file.path, file)
    return Stock(
        files=tuple(sorted(by_path.values(), key=lambda file: file.path)),
        bytes_total=skeleton.bytes_total + sum(tree.facts.bytes_on_disk for tree in trees),
        bytes_own=skeleton.bytes_own + sum(each.copied_bytes + each.folder_bytes for each in linked),
    )


def _manifest(plan: Plan, trees: Mapping[str, TreeReport], stock: Stock) -> Manifest:
    facts = [tree.facts for tree in trees.values()]
    interpreter = plan.interpreter
    return Manifest(
        key=plan.key,
        lock=plan.resolution.lock,
        interpreter={
            "python": str(interpreter.python),
            "version": interpreter.version,
            "tag": interpreter.tag,
            "digest": interpreter.digest,
        },
        created=datetime.now(UTC),
        builder=plan.builder_digest,
        files=list_digest(stock.files),
        trees=tuple(plan.tree_key(package) for package in plan.packages),
        modules=tuple(sorted({module for fact in facts for module in fact.modules})),
        pth=any(fact.has_path_files for fact in facts),
        bytes_total=stock.bytes_total,
        bytes_own=stock.bytes_own,
    )
