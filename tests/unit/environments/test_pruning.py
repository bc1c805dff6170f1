"""Pruning removes unneeded files, and keeps those that a process uses, builds, or will ask for."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.store.prune import Sweep
from sandbox.environments.store.store import Store
from sandbox.environments.store.trees import load_tree
from sandbox.errors import BuildFailed
from tests.unit.environments.made_wheels import Made, key_of, make_wheel, publish_environment, tree_in
from tests.unit.environments.other_processes import heard, nudge, running

KEY: Final = key_of(1)
TREE: Final = key_of(100)
EVERYTHING_S: Final = -1.0
DAY_S: Final = 86400.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make_wheel(tmp_path)


def _used(store: Store, key: str, *, days_ago: float) -> None:
    then = time.time() - days_ago * DAY_S
    os.utime(store.environments / key / "used", (then, then))


def _keep_wheel(store: Store, made: Made) -> Path:
    folder = store.wheels / made.locked.sha256
    folder.mkdir()
    (folder / made.path.name).write_bytes(made.path.read_bytes())
    return folder


@pytest.mark.slow
def test_without_options_only_garbage_is_removed(store: Store, made: Made) -> None:
    tree = tree_in(store, made, TREE)
    unneeded = tree_in(store, made, key_of(101))
    wheel = _keep_wheel(store, made)
    (store.wheels / ("0" * 64)).mkdir()
    publish_environment(store, KEY, {TREE: tree}, packages=(made.locked,))
    report = store.prune()
    assert (report.environments, report.trees, report.wheels) == ((), 1, 1)
    assert report.bytes_freed >= unneeded.facts.bytes_on_disk
    assert load_tree(store, TREE) is not None
    assert load_tree(store, key_of(101)) is None
    assert [path.name for path in store.wheels.iterdir()] == [wheel.name]
    assert store.verify(KEY).is_intact


def test_the_folder_of_downloads_is_no_wheel(store: Store) -> None:
    (store.wheels / ".partial").mkdir()
    report = store.prune()
    assert (report.wheels, report.bytes_freed) == (0, 0)
    assert (store.wheels / ".partial").is_dir()


def test_environments_unused_for_long_are_removed(store: Store) -> None:
    for number in range(3):
        publish_environment(store, key_of(number))
        _used(store, key_of(number), days_ago=number)
    report = store.prune(older_than_s=1.5 * DAY_S)
    assert report.environments == (key_of(2),)
    assert set(store.environment_keys()) == {key_of(0), key_of(1)}
    assert store.find(key_of(2)) is None


def test_a_named_environment_is_removed_and_nothing_else(store: Store) -> None:
    for number in range(3):
        publish_environment(store, key_of(number))
    said = store.prune([key_of(1)], dry_run=True)
    assert (said.environments, len(set(store.environment_keys()))) == ((key_of(1),), 3)
    assert store.prune([key_of(1)]).environments == (key_of(1),)
    assert set(store.environment_keys()) == {key_of(0), key_of(2)}


def test_a_named_environment_in_use_stays(store: Store) -> None:
    publish_environment(store, KEY)
    hold = store.use(KEY)
    assert hold is not None
    with hold:
        report = store.prune([KEY])
    assert (report.environments, report.in_use) == ((), (KEY,))
    assert store.find(KEY)


@pytest.mark.slow
def test_the_last_environment_takes_its_trees_and_wheels_with_it(store: Store, made: Made) -> None:
    tree = tree_in(store, made, TREE)
    _keep_wheel(store, made)
    for number in range(2):
        publish_environment(store, key_of(number), {TREE: tree}, packages=(made.locked,))
        _used(store, key_of(number), days_ago=number)
    assert (store.prune(older_than_s=0.5 * DAY_S).trees, load_tree(store, TREE) is None) == (0, False)
    report = store.prune(older_than_s=EVERYTHING_S)
    assert (report.environments, report.trees, report.wheels) == ((key_of(0),), 1, 1)
    assert report.bytes_left == 0
    assert list(store.packages.iterdir()) == list(store.wheels.iterdir()) == list(store.building.iterdir()) == []


@pytest.mark.slow
def test_the_least_recently_used_are_removed_until_the_rest_fits(store: Store, tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two", "three")):
        (folder := tmp_path / name).mkdir()
        made = make_wheel(folder, name=name, files={f"{name}/large.bin": os.urandom(1 << 20)})
        tree = tree_in(store, made, key_of(100 + number))
        publish_environment(store, key_of(number), {key_of(100 + number): tree})
        _used(store, key_of(number), days_ago=number)
    report = store.prune(max_bytes=int(2.5 * (1 << 20)))
    assert report.environments == (key_of(2),)
    assert report.trees == 1
    assert (1 << 20) < report.bytes_freed < (3 << 20) // 2
    assert 2 << 20 < report.bytes_left < 5 << 19
    assert store.prune(max_bytes=100 << 20).environments == ()


@pytest.mark.slow
def test_a_dry_run_reports_the_same_and_removes_nothing(store: Store, made: Made) -> None:
    tree = tree_in(store, made, TREE)
    _keep_wheel(store, made)
    publish_environment(store, KEY, {TREE: tree}, packages=(made.locked,))
    store.remember_failure(key_of(2), BuildFailed("then"), ttl_s=0)
    before = sorted(store.root.rglob("*"))
    said = store.prune(older_than_s=EVERYTHING_S, dry_run=True)
    assert [path for path in before if not path.exists()] == []
    done = store.prune(older_than_s=EVERYTHING_S)
    assert (said.dry_run, done.dry_run) == (True, False)
    for name in ("environments", "trees", "wheels", "leftovers", "bytes_left"):
        assert getattr(said, name) == getattr(done, name)
    assert abs(said.bytes_freed - done.bytes_freed) <= done.bytes_freed // 10


USING: Final = """
use = store.use(key_of(1))
tell(use is not None)
wait()
use.release()
tell("gave it back")
wait()
"""


@pytest.mark.slow
def test_an_environment_in_use_elsewhere_stays_until_released(store: Store) -> None:
    publish_environment(store, KEY)
    publish_environment(store, key_of(2))
    with running(USING, store.root) as other:
        assert heard(other) == "True"
        report = store.prune(older_than_s=EVERYTHING_S)
        assert (report.environments, report.in_use) == ((key_of(2),), (KEY,))
        assert store.verify(KEY).is_intact
        nudge(other)
        assert heard(other) == "gave it back"
        assert store.prune(older_than_s=EVERYTHING_S).environments == (KEY,)


@pytest.mark.slow
def test_a_dead_user_does_not_keep_an_environment(store: Store) -> None:
    publish_environment(store, KEY)
    with running(USING, store.root) as other:
        assert heard(other) == "True"
        other.kill()
        other.wait()
    assert store.prune(older_than_s=EVERYTHING_S).environments == (KEY,)


def test_an_environment_in_use_does_not_count_for_the_budget(store: Store) -> None:
    publish_environment(store, KEY)
    use = store.use(KEY)
    assert use is not None
    with use:
        report = store.prune(max_bytes=0)
    assert report.in_use == (KEY,)
    assert report.bytes_left > 0


def test_an_environment_used_since_it_was_chosen_stays(store: Store) -> None:
    environment = publish_environment(store, KEY)
    _used(store, KEY, days_ago=3)
    chosen_at = environment.last_used
    store.touch(KEY)
    assert not Sweep(store, dry_run=False).environment(environment, last_used=chosen_at)
    assert store.find(KEY) is not None


BUILDING: Final = """
with store.new_building_folder() as building:
    (building.folder / "half").write_text("done")
    tell(building.folder.name)
    wait()
tell("done")
wait()
"""


@pytest.mark.slow
def test_files_of_a_dead_builder_are_removed(store: Store) -> None:
    with running(BUILDING, store.root) as other:
        assert heard(other) in os.listdir(store.building)
        other.kill()
        other.wait()
    assert len(os.listdir(store.building)) == 1
    assert store.prune(dry_run=True).building == 1
    assert store.prune().building == 1
    assert os.listdir(store.building) == []


@pytest.mark.slow
def test_during_a_build_its_folder_and_all_trees_stay(store: Store, made: Made) -> None:
    tree_in(store, made, TREE)
    with running(BUILDING, store.root) as other:
        name = heard(other)
        report = store.prune()
        assert (report.building, report.trees, report.is_somebody_building) == (0, 0, True)
        assert (store.building / name / "half").read_text() == "done"
        assert load_tree(store, TREE) is not None
        nudge(other)
        assert heard(other) == "done"
        assert store.prune().trees == 1


def test_incomplete_entries_are_garbage(store: Store) -> None:
    (publish_environment(store, KEY).home / "complete").unlink()
    publish_environment(store, key_of(2))
    assert store.prune().environments == ()
    assert list(store.environment_keys()) == [key_of(2)]


def _age(path: Path, *, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def test_outdated_failures_logs_locks_and_partial_files_are_removed(store: Store) -> None:
    store.remember_failure(key_of(1), BuildFailed("then", log="old"), ttl_s=0)
    store.remember_failure(key_of(2), BuildFailed("now", log="new"), ttl_s=60)
    _age(store.logs / f"{key_of(1)}.log", days=8)
    (unfinished := store.failed / ".new-abc").write_text("")
    _age(unfinished, days=1)
    (lock := store.locks / f"{key_of(1)}.build").write_text("")
    _age(lock, days=1)
    assert store.prune().leftovers == 4
    assert store.failure(key_of(2)) is not None
    assert os.listdir(store.logs) == [f"{key_of(2)}.log"]
    assert not unfinished.exists()
    assert not lock.exists()


def test_broken_downloads_are_removed_after_an_hour_and_reported(store: Store) -> None:
    (downloads := store.wheels / ".partial").mkdir()
    for name, days in (("broken off", 1.0), ("under way", 0.0)):
        (downloads / name).write_bytes(bytes(1 << 20))
        _age(downloads / name, days=days)
    assert store.prune(dry_run=True).leftovers == 1
    report = store.prune()
    assert (report.leftovers, report.wheels) == (1, 0)
    assert report.bytes_freed >= 1 << 20
    assert os.listdir(downloads) == ["under way"]


def test_a_resolution_unused_for_months_is_removed(store: Store) -> None:
    names = {"months": 100.0, "weeks": 30.0}
    for name, days in names.items():
        (file := store.resolutions / f"{name}.json").write_text("{}")
        _age(file, days=days)
    assert store.prune().leftovers == 1
    assert os.listdir(store.resolutions) == ["weeks.json"]


def test_a_held_lock_stays_at_any_age(store: Store) -> None:
    lock = store.lock(KEY)
    assert lock.try_acquire()
    _age(store.locks / f"{KEY}.build", days=30)
    store.prune()
    assert not store.lock(KEY).try_acquire()
    lock.release()


@pytest.mark.slow
def test_using_and_pruning_at_once_never_meet(store: Store) -> None:
    """A caller with permission to use an environment has all of it."""
    script = """
for number in range(25):
    store.prune(older_than_s=-1)
tell("done")
"""
    with running(script, store.root) as other:
        used = 0
        while other.poll() is None:
            publish_environment(store, KEY)
            if (use := store.use(KEY)) is not None:
                with use:
                    used += (store.environments / KEY / "environment" / "pyvenv.cfg").exists()
                    assert (store.environments / KEY / "complete").exists()
        assert heard(other) == "done"
    assert used > 0
