"""Verifying names all changes since the publication, of modes and folders as of files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.environments.store.store import Store, StoredEnvironment
from sandbox.environments.store.tree_report import TreeReport
from sandbox.environments.store.trees import load_intact_tree, load_tree
from sandbox.environments.store.verify import VerifyReport, verify
from sandbox.errors import EnvironmentTampered, SpecError
from tests.unit.environments.made_wheels import SITE, key_of, make_wheel, publish_environment, tree_in

KEY: Final = key_of(1)
TREE: Final = key_of(100)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def tree(store: Store, tmp_path: Path) -> TreeReport:
    return tree_in(store, make_wheel(tmp_path), TREE)


def _open_file(folder: Path) -> None:
    (folder / SITE / "single.py").chmod(0o666)


def _open_folder(folder: Path) -> None:
    (folder / SITE).chmod(0o777)


def _open_all_of_it(folder: Path) -> None:
    folder.chmod(0o777)


def _add_folder(folder: Path) -> None:
    (folder / SITE).chmod(0o755)
    (folder / SITE / "requests").mkdir()
    (folder / SITE).chmod(0o555)


TAMPERED: Final = {
    "a file that others may write": (_open_file, "modes", f"{SITE}/single.py"),
    "a folder that others may write": (_open_folder, "modes", SITE),
    "the whole folder": (_open_all_of_it, "modes", "."),
    "a folder more": (_add_folder, "extra", f"{SITE}/requests"),
}


@pytest.mark.parametrize(("tamper", "kind", "name"), TAMPERED.values(), ids=TAMPERED)
def test_modes_and_folders_are_found_by_name(
    tamper: Callable[[Path], None], kind: str, name: str, store: Store, tree: TreeReport
) -> None:
    tamper(publish_environment(store, KEY, {TREE: tree}, copy=True).folder)
    report = store.verify(KEY)
    assert getattr(report, kind) == (name,)
    with pytest.raises(EnvironmentTampered, match=name.rpartition("/")[2]):
        report.raise_if_tampered()


def _remove_marker(home: Path) -> None:
    (home / "complete").unlink()


def _add_to_manifest(home: Path) -> None:
    (home / "manifest.json").chmod(0o644)
    with (home / "manifest.json").open("a") as manifest:
        manifest.write("x\n")


def _remove_content(home: Path) -> None:
    shutil.rmtree(home / "environment")


def _link_elsewhere(home: Path) -> None:
    (home / "environment").rename(home / "elsewhere")
    (home / "environment").symlink_to("elsewhere")


BROKEN: Final = (_remove_marker, _add_to_manifest, _remove_content, _link_elsewhere)


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_an_incomplete_environment_is_reported_missing_and_replaced(
    spoil: Callable[[Path], None], store: Store
) -> None:
    home = publish_environment(store, KEY).home
    assert store.find(KEY)
    spoil(home)
    store = Store(store.root)
    assert store.broken_keys() == [KEY]
    assert not store.verify(KEY).is_intact
    assert (store.find(KEY), store.list(), store.use(KEY)) == (None, [], None)
    publish_environment(store, KEY)
    assert store.find(KEY)
    assert store.verify(KEY).is_intact


def test_an_unchanged_tree_stays(store: Store, tree: TreeReport) -> None:
    assert load_intact_tree(store, TREE) == tree
    assert load_tree(store, TREE) == tree


def test_a_changed_tree_is_dropped(store: Store, tree: TreeReport) -> None:
    (tree.folder / "single.py").chmod(0o644)
    (tree.folder / "single.py").write_text("x = 3\n")
    assert load_tree(store, TREE) == tree
    assert load_intact_tree(store, TREE) is None
    assert load_tree(store, TREE) is None


def test_changed_trees_are_dropped_with_the_environment_that_shows_it(store: Store, tree: TreeReport) -> None:
    publish_environment(store, KEY, {TREE: tree})
    (tree.folder / "single.py").chmod(0o666)
    assert store.verify(KEY).modes == (f"{SITE}/single.py",)
    assert load_tree(store, TREE) is None


def test_an_unchanged_tree_stays_when_a_copy_changed(store: Store, tree: TreeReport) -> None:
    environment = publish_environment(store, KEY, {TREE: tree}, copy=True)
    (environment.folder / SITE / "single.py").chmod(0o666)
    assert not store.verify(KEY).is_intact
    assert load_tree(store, TREE) == tree


def test_verifying_keeps_off_pruning_and_is_no_use(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    home = publish_environment(store, KEY).home
    os.utime(home / "used", (1, 1))
    in_use: list[str] = []

    def verify_while_pruning(*where: Any, **what: Any) -> VerifyReport:
        in_use.extend(Store(store.root).prune(older_than_s=0).in_use)
        return verify(*where, **what)

    monkeypatch.setattr("sandbox.environments.store.store.verify", verify_while_pruning)
    (report,) = store.verify_all()
    assert (report.is_intact, in_use) == (True, [KEY])
    assert (home / "used").stat().st_mtime == 1
    assert store.prune(older_than_s=0).environments == (KEY,)


def test_an_environment_pruned_before_it_is_verified_is_no_alarm(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Store.list

    def list_before_pruning(self: Store) -> Sequence[StoredEnvironment]:
        there = found(self)
        monkeypatch.setattr(Store, "list", found)
        store.prune([KEY])
        return there

    publish_environment(store, KEY)
    publish_environment(store, key_of(2))
    monkeypatch.setattr(Store, "list", list_before_pruning)
    assert [(report.key, report.is_intact) for report in store.verify_all()] == [(key_of(2), True)]


def test_a_named_environment_pruned_before_it_is_verified_is_reported(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = publish_environment(store, KEY)
    store.prune([KEY])
    monkeypatch.setattr(Store, "show", lambda *_: environment)
    with pytest.raises(SpecError, match="has been removed meanwhile"):
        store.verify(KEY)
