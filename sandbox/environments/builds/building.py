"""From a lock to an environment in the store.

    bench         a folder, a skeleton, and a box that waits: may be there before the lock is
    wheels        what is missing is downloaded by the engine: bytes, checked against the lock; and meanwhile
    job           a box without any network unpacks each missing wheel into a folder of its own and compiles it
    trees         the box is gone: what it left is verified, made the engine's own, and published, one tree per wheel
    environment   a skeleton with hard links into the trees, published by rename

A kill at any moment leaves the store as it was, with a folder under `building/` that a later prune removes. Trees that
were published by then are found by the next attempt: no wheel is unpacked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from sandbox.environments.builds.adopting import TreeCaps, adopt_tree
from sandbox.environments.builds.bench import Bench
from sandbox.environments.builds.linking import Linked, link_tree
from sandbox.environments.builds.plan import Plan
from sandbox.environments.builds.unpacking import Unpacked, Unpacking, counted
from sandbox.environments.disk.building_folder import BuildingFolder
from sandbox.environments.disk.places import writing
from sandbox.environments.disk.stock import Stock, StoredFile, list_digest, take_stock
from sandbox.environments.interpreters.skeleton import site_folder
from sandbox.environments.lock import LockedPackage
from sandbox.environments.progress import OnProgress, Progress
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.store.store import CONTENT, Store, StoredEnvironment
from sandbox.environments.store.tree_report import TreeReport
from sandbox.environments.store.trees import load_tree, publish_tree
from sandbox.environments.threads import to_its_end


async def build(plan: Plan, *, bench: Bench, store: Store, tell: OnProgress) -> StoredEnvironment:
    """Make the environment and publish it; raises `BuildFailed` or `IndexUnavailable`. Called under the key's lock."""
    trees = await asyncio.to_thread(_known_trees, plan, store)
    missing = [package for package in plan.packages if package.name not in trees]
    if missing:
        trees |= await _make_trees(plan, missing, bench=bench, store=store, tell=tell)
    else:
        await bench.dismiss()
        await bench.furnish()
    tell(Progress("publish", counted(len(plan.packages)), len(plan.packages), len(plan.packages)))
    return await to_its_end(partial(_assemble, plan, trees, bench.building, store))


def _known_trees(plan: Plan, store: Store) -> dict[str, TreeReport]:
    """The trees that the store has, by the names of their packages."""
    found = {package.name: load_tree(store, plan.tree_key(package)) for package in plan.packages}
    return {name: tree for name, tree in found.items() if tree is not None}


async def _make_trees(
    plan: Plan, missing: Sequence[LockedPackage], *, bench: Bench, store: Store, tell: OnProgress
) -> dict[str, TreeReport]:
    unpacked = await Unpacking(plan, missing, bench=bench, store=store.wheels, tell=tell).run()
    tell(Progress("verify", counted(len(missing)), len(missing), len(missing)))
    return await to_its_end(partial(_adopt, plan, missing, unpacked, store))


def _adopt(plan: Plan, missing: Sequence[LockedPackage], unpacked: Unpacked, store: Store) -> dict[str, TreeReport]:
    """What the box left, verified and published; nothing that runs can reach it any more."""
    made, left = {}, plan.means.disk
    for package in missing:
        caps = TreeCaps(bytes=left)
        report = adopt_tree(
            unpacked.folder / package.name, wheel=package, archive=unpacked.wheels[package.sha256], caps=caps
        )
        left = max(left - sum(file.size for file in report.files), 0)
        made[package.name] = publish_tree(store, report, plan.tree_key(package))
    return made


def _assemble(plan: Plan, trees: Mapping[str, TreeReport], building: BuildingFolder, store: Store) -> StoredEnvironment:
    """Only the skeleton is looked at: all that is linked is known, and read-only already."""
    content = building.folder / CONTENT
    site, programs = content / site_folder(plan.means.interpreter), content / "bin"
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
    interpreter = plan.means.interpreter
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
        builder=plan.means.builder_digest,
        files=list_digest(stock.files),
        trees=tuple(plan.tree_key(package) for package in plan.packages),
        modules=tuple(sorted({module for fact in facts for module in fact.modules})),
        pth=any(fact.has_path_files for fact in facts),
        bytes_total=stock.bytes_total,
        bytes_own=stock.bytes_own,
    )
