"""What an environment or a tree has that was not published so is named: modes and folders, as files are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.store.store import Store
from sandbox.environments.store.tree_report import TreeReport
from sandbox.environments.store.trees import load_intact_tree, load_tree
from sandbox.errors import EnvironmentTampered
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
def test_what_is_not_whole_is_told_is_not_there_and_is_replaced(spoil: Callable[[Path], None], store: Store) -> None:
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


def test_a_tree_that_is_what_it_was_stays(store: Store, tree: TreeReport) -> None:
    assert load_intact_tree(store, TREE) == tree
    assert load_tree(store, TREE) == tree


def test_a_tree_that_is_not_what_it_was_is_dropped(store: Store, tree: TreeReport) -> None:
    (tree.folder / "single.py").chmod(0o644)
    (tree.folder / "single.py").write_text("x = 3\n")
    assert load_tree(store, TREE) == tree
    assert load_intact_tree(store, TREE) is None
    assert load_tree(store, TREE) is None


def test_trees_are_dropped_with_the_environment_that_shows_that_they_changed(store: Store, tree: TreeReport) -> None:
    publish_environment(store, KEY, {TREE: tree})
    (tree.folder / "single.py").chmod(0o666)
    assert store.verify(KEY).modes == (f"{SITE}/single.py",)
    assert load_tree(store, TREE) is None


def test_a_tree_that_did_not_change_stays_when_a_copy_of_it_did(store: Store, tree: TreeReport) -> None:
    environment = publish_environment(store, KEY, {TREE: tree}, copy=True)
    (environment.folder / SITE / "single.py").chmod(0o666)
    assert not store.verify(KEY).is_intact
    assert load_tree(store, TREE) == tree
