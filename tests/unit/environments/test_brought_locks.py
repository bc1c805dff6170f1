"""An imported lock stays with its wheels, also without a built environment, until old or over budget."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.lock import Lock
from sandbox.environments.store.imported_locks import brought_lock, brought_locks, keep_lock
from sandbox.environments.store.store import Store
from tests.unit.environments.made_wheels import INTERPRETER, Made, key_of, make_wheel, publish_environment

DAY_S: Final = 86400.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make_wheel(tmp_path)


@pytest.fixture
def lock(store: Store, made: Made) -> Lock:
    """Import a lock with its wheel."""
    lock = Lock(requirements=("gadget",), interpreter=INTERPRETER, packages=(made.locked,))
    place = store.wheels / made.locked.sha256
    place.mkdir()
    made.path.rename(place / made.locked.wheel)
    keep_lock(store, lock)
    return lock


def _used(store: Store, *, days_ago: float) -> None:
    (brought,) = brought_locks(store)
    moment = time.time() - days_ago * DAY_S
    os.utime(brought.file, (moment, moment))


def _has_wheel(store: Store) -> bool:
    return any(store.wheels.glob("*/gadget-*.whl"))


def test_an_imported_lock_serves_equal_requirements_and_interpreter(store: Store, lock: Lock) -> None:
    assert brought_lock(store, ("gadget",), INTERPRETER) == lock
    assert brought_lock(store, ("gadget>1",), INTERPRETER) is None
    assert brought_lock(store, ("gadget",), "cp399-sparc_32") is None


@pytest.mark.usefixtures("lock")
def test_a_plain_prune_keeps_an_imported_lock_and_its_wheels(store: Store) -> None:
    _used(store, days_ago=400)
    report = store.prune()
    assert (report.imports, report.wheels) == (0, 0)
    assert report.bytes_left > 0
    assert _has_wheel(store)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_lock_unused_for_long_is_removed_with_its_wheels(dry_run: bool, store: Store, lock: Lock) -> None:
    _used(store, days_ago=2)
    assert store.prune(older_than_s=3 * DAY_S).imports == 0
    report = store.prune(older_than_s=DAY_S, dry_run=dry_run)
    assert (report.imports, report.wheels) == (1, 1)
    assert _has_wheel(store) is dry_run
    assert bool(brought_lock(store, lock.requirements, lock.interpreter)) is dry_run


def test_a_request_counts_as_a_use(store: Store, lock: Lock) -> None:
    _used(store, days_ago=2)
    assert brought_lock(store, lock.requirements, lock.interpreter)
    assert store.prune(older_than_s=DAY_S).imports == 0


def test_over_budget_the_least_recently_used_goes_first(store: Store, lock: Lock) -> None:
    publish_environment(store, key_of(1), packages=lock.packages)
    _used(store, days_ago=2)
    report = store.prune(max_bytes=store.prune(dry_run=True).bytes_left - 1)
    assert report.imports == 1
    assert len(report.environments) == 1
    publish_environment(store, key_of(2))
    assert store.prune(max_bytes=1 << 30).environments == ()


def test_a_wheel_that_an_environment_needs_outlives_the_lock(store: Store, lock: Lock) -> None:
    publish_environment(store, key_of(1), packages=lock.packages)
    _used(store, days_ago=2)
    report = store.prune(older_than_s=DAY_S)
    assert (report.imports, report.environments, report.wheels) == (1, (), 0)
    assert _has_wheel(store)


def test_a_named_environment_can_be_rebuilt_from_an_import(store: Store, lock: Lock) -> None:
    publish_environment(store, key_of(1), packages=lock.packages)
    assert store.prune([key_of(1)]).environments == (key_of(1),)
    assert _has_wheel(store)
    assert brought_lock(store, lock.requirements, lock.interpreter) == lock
