"""From a lock to an environment in the store.

    workspace         a folder, a skeleton, and a box that waits: may be there before the lock is
    wheels        what is missing is downloaded by the engine: bytes, checked against the lock; and meanwhile
    job           a box without any network unpacks each missing wheel into a folder of its own and compiles it
    trees         the box is gone: what it left is verified, made the engine's own, and published, one tree per wheel
    environment   a skeleton with hard links into the trees, made while others are verified; published by rename

A kill at any moment leaves the store as it was, with a folder under `building/` that a later prune removes. Trees that
were published by then are found by the next attempt: no wheel is unpacked twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from sandbox.environments.builds.fitting import refuse_unfit
from sandbox.environments.builds.ingest import TreeCaps, adopt_tree
from sandbox.environments.builds.linking import Linked, link_tree
from sandbox.environments.builds.plan import Plan
from sandbox.environments.builds.unpacking import Unpacked, Unpacking, counted
from sandbox.environments.builds.workspace import BuildWorkspace
from sandbox.environments.disk.build_folder import BuildingFolder
from sandbox.environments.disk.file_inventory import FileInventory, StoredFile, list_digest, take_inventory
from sandbox.environments.disk.paths import writing
from sandbox.environments.interpreters.skeleton import site_folder
from sandbox.environments.lock import LockedPackage
from sandbox.environments.progress import OnProgress, Progress
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.store.store import Store, StoredEnvironment
from sandbox.environments.store.tree_report import TreeReport
from sandbox.environments.store.trees import load_intact_tree, load_tree, publish_tree
from sandbox.environments.tasks import to_its_end
from sandbox.threads import in_own_thread

_SET_BY: Final = ", as environment.build_disk in the policy says of all packages together"


async def build(plan: Plan, *, workspace: BuildWorkspace, store: Store, tell: OnProgress) -> StoredEnvironment:
    """Make the environment and publish it; raises `BuildFailed` or `IndexUnavailable`. Called under the key's lock."""
    known = await in_own_thread(partial(_known_trees, plan, store))
    missing = [package for package in plan.packages if package.name not in known]
    unpacked = await _unpacked(plan, missing, workspace=workspace, store=store, tell=tell)
    with _Linking(plan, workspace.skeleton) as linking:
        await to_its_end(partial(_link_all, plan, known, unpacked, store, linking))
        tell(Progress("publish", counted(len(plan.packages)), len(plan.packages), len(plan.packages)))
        return await to_its_end(partial(_publish, plan, linking, workspace.building, store))


def _known_trees(plan: Plan, store: Store) -> dict[str, TreeReport]:
    """The trees that the store has, by the names of their packages; whole is enough, unless the policy verifies."""
    load = load_intact_tree if plan.means.is_verifying else load_tree
    found = {package.name: load(store, plan.tree_key(package)) for package in plan.packages}
    return {name: tree for name, tree in found.items() if tree is not None}


async def _unpacked(
    plan: Plan, missing: Sequence[LockedPackage], *, workspace: BuildWorkspace, store: Store, tell: OnProgress
) -> Unpacked | None:
    """Return the unpacked wheels; no process can reach them or the skeleton any more when this ends."""
    if not missing:
        await workspace.cancel_box()
        await workspace.add_skeleton()
        return None
    unpacked = await Unpacking(plan, missing, workspace=workspace, store=store.wheels, tell=tell).run()
    tell(Progress("verify", counted(len(missing), of=len(plan.packages)), len(missing), len(missing)))
    return unpacked


def _link_all(
    plan: Plan, known: Mapping[str, TreeReport], unpacked: Unpacked | None, store: Store, linking: _Linking
) -> None:
    """Trees that the store has, and those that are made of what the box left: verified, and published."""
    left = plan.means.disk
    for package in plan.packages:
        tree = known.get(package.name)
        if tree is None and unpacked is not None:
            tree = _adopt(plan, package, unpacked, store, caps=TreeCaps(bytes=left, set_by=_SET_BY))
            left = max(left - sum(file.size for file in tree.files), 0)
        if tree is not None:
            linking.add(tree)
    refuse_unfit(plan.resolution.lock, linking.trees, plan.means.interpreter)


def _adopt(plan: Plan, package: LockedPackage, unpacked: Unpacked, store: Store, *, caps: TreeCaps) -> TreeReport:
    folder, archive = unpacked.folder / package.name, unpacked.wheels[package.sha256]
    report = adopt_tree(folder, wheel=package, archive=archive, caps=caps)
    return publish_tree(store, report, plan.tree_key(package))


class _Linking:
    """A skeleton that becomes an environment: trees are linked into it in the order in which they come, each as soon as
    it has come, while the next is verified."""

    def __init__(self, plan: Plan, content: Path) -> None:
        self.trees: list[TreeReport] = []
        self._what = f"the environment {plan.key[:12]}"
        self._content = content
        self._site = content / site_folder(plan.means.interpreter)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="linking")
        self._linked: list[Future[Linked]] = []

    def __enter__(self) -> _Linking:
        self._skeleton = self._thread.submit(take_inventory, self._content)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def add(self, tree: TreeReport) -> None:
        """Link one more tree, after all others."""
        self.trees.append(tree)
        self._linked.append(self._thread.submit(link_tree, tree, self._site, self._content))

    def done(self) -> tuple[FileInventory, list[Linked]]:
        """The skeleton's files, all there are that are not known already, and what was linked."""
        with writing(self._what):
            return self._skeleton.result(), [each.result() for each in self._linked]


def _publish(plan: Plan, linking: _Linking, building: BuildingFolder, store: Store) -> StoredEnvironment:
    """Only the skeleton was looked at: all that is linked is known, and read-only already."""
    skeleton, linked = linking.done()
    stock = _joined(skeleton, linked, linking.trees)
    closed = frozenset(file.path for each in linked for file in each.files)
    return store.publish(building, _manifest(plan, linking.trees, stock), files=stock.files, closed=closed)


def _joined(skeleton: FileInventory, linked: Sequence[Linked], trees: Iterable[TreeReport]) -> FileInventory:
    """Return all files of an environment; of equal files with one name, the first package's."""
    by_path: dict[str, StoredFile] = {}
    for file in chain(skeleton.files, *(each.files for each in linked)):
        by_path.setdefault(file.path, file)
    return FileInventory(
        files=tuple(sorted(by_path.values(), key=lambda file: file.path)),
        bytes_total=skeleton.bytes_total + sum(tree.facts.bytes_on_disk for tree in trees),
        bytes_own=skeleton.bytes_own + sum(each.copied_bytes + each.folder_bytes for each in linked),
    )


def _manifest(plan: Plan, trees: Iterable[TreeReport], stock: FileInventory) -> Manifest:
    facts = [tree.facts for tree in trees]
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
