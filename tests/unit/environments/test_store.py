"""Entries of the store are complete, also after a kill and for a second writer."""

from __future__ import annotations

import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.disk import complete_marker
from sandbox.environments.disk.complete_marker import seal, write_whole
from sandbox.environments.disk.locks import locked_file
from sandbox.environments.disk.paths import default_root, remove
from sandbox.environments.store import store as stores
from sandbox.environments.store.store import Store
from sandbox.environments.store.tree_report import TreeReport
from sandbox.errors import BuildFailed, EnvironmentTampered, EnvironmentUnavailable, SpecError
from tests.processor_time import within
from tests.unit.environments.made_wheels import (
    SITE,
    key_of,
    make_wheel,
    manifest_of,
    publish_environment,
    tree_in,
)
from tests.unit.environments.other_processes import heard, nudge, running
from tests.unprivileged import AS_NOBODY

KEY: Final = key_of(1)
BYTECODE: Final = f"{SITE}/__pycache__/single.{sys.implementation.cache_tag}.pyc"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def tree(store: Store, tmp_path: Path) -> TreeReport:
    return tree_in(store, make_wheel(tmp_path), key_of(100))


# The folder


@pytest.mark.parametrize("part", ["", "locks", "envs", "sandbox-store"])
def test_a_store_removed_during_use_is_made_again(part: str, store: Store) -> None:
    def modes() -> dict[str, int]:
        return {str(path): path.stat().st_mode for path in (store.root, *store.root.rglob("*"))}

    before = modes()
    assert not store.restore()
    remove(store.root / part)
    assert store.restore()
    assert modes() == before
    assert publish_environment(store, KEY) == store.find(KEY)


def test_a_store_whose_path_another_user_took_is_refused(store: Store) -> None:
    remove(store.root)
    store.root.mkdir()
    (store.root / "thesis.tex").touch()
    with pytest.raises(EnvironmentUnavailable, match="is no store"):
        store.restore()
    assert os.listdir(store.root) == ["thesis.tex"]


# Finding


def test_a_published_environment_is_found(store: Store) -> None:
    published = publish_environment(store, KEY)
    found = store.find(KEY)
    assert found == published
    assert found.folder == store.root / "envs" / "1" / KEY / "environment"
    assert (found.folder / "pyvenv.cfg").read_text() == "home = /usr/bin\n"
    assert Store(store.root).find(KEY) == found


def test_an_unpublished_environment_is_not_found(store: Store) -> None:
    publish_environment(store, KEY)
    assert store.find(key_of(2)) is None


@pytest.mark.parametrize("key", ["", "../../etc", "a" * 63, "A" * 64, "a" * 64 + "\n"])
def test_a_key_never_becomes_a_path(key: str, store: Store) -> None:
    with pytest.raises(SpecError, match="not the key"):
        store.find(key)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda home: (home / name).unlink()


def _write(name: str, text: str) -> Callable[[Path], None]:
    def write(home: Path) -> None:
        (home / name).unlink()
        (home / name).write_text(text)

    return write


def _another_manifest(home: Path) -> None:
    seal(home, document="manifest.json", data=manifest_of(key_of(7)).model_dump_json().encode(), files="")


def _future_manifest(home: Path) -> None:
    seal(home, document="manifest.json", data=b'{"format": 2}', files="")


BROKEN: Final = {
    "no marker": _remove("complete"),
    "no manifest": _remove("manifest.json"),
    "an empty marker": _write("complete", ""),
    "a marker of something else": _write("complete", "0" * 64 + " boot"),
    "an empty manifest": _write("manifest.json", ""),
    "a manifest of another key": _another_manifest,
    "a manifest of another format": _future_manifest,
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
def test_an_incomplete_environment_is_not_found_and_is_replaced(spoil: Callable[[Path], None], store: Store) -> None:
    spoil(publish_environment(store, KEY).home)
    assert store.find(KEY) is None
    assert store.list() == []
    publish_environment(store, KEY)
    assert store.find(KEY) is not None
    assert list(store.building.iterdir()) == []


def test_an_environment_that_vanished_is_not_found_again(store: Store) -> None:
    publish_environment(store, KEY)
    assert store.find(KEY)
    store.discard(store.environments / KEY)
    assert store.find(KEY) is None


def _reboot(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(complete_marker, "this_boot", lambda: name)


def test_after_a_restart_complete_environments_are_found_and_sealed(
    store: Store, tree: TreeReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = publish_environment(store, KEY, {key_of(100): tree}).home
    _reboot(monkeypatch, "the next")
    assert Store(store.root).find(KEY) is not None
    assert (home / "complete").read_text().endswith(" the next\n")


@pytest.mark.parametrize("path", ["pyvenv.cfg", f"{SITE}/gadget/data.bin"])
def test_after_a_power_failure_an_environment_with_lost_bytes_is_not_found(
    path: str, store: Store, tree: TreeReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.truncate(publish_environment(store, KEY, {key_of(100): tree}).folder / path, 0)
    _reboot(monkeypatch, "the next")
    assert Store(store.root).find(KEY) is None


def test_after_a_power_failure_an_environment_without_a_file_is_not_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish_environment(store, KEY).folder
    folder.chmod(0o755)
    (folder / "pyvenv.cfg").unlink()
    _reboot(monkeypatch, "the next")
    assert Store(store.root).find(KEY) is None


@pytest.mark.slow
def test_finding_one_of_a_thousand_takes_no_time(store: Store) -> None:
    keys = [key_of(number) for number in range(1000)]
    for key in keys:
        (home := store.environments / key).mkdir()
        (home / "environment").mkdir()
        seal(home, document="manifest.json", data=manifest_of(key).model_dump_json().encode(), files="")
    fresh = Store(store.root)
    for milliseconds_each in (2, 0.3):
        with within(milliseconds_each / 1000 * len(keys)):
            assert all(fresh.find(key) for key in keys)


# Publishing


def test_a_published_environment_is_read_only(store: Store, tree: TreeReport) -> None:
    environment = publish_environment(store, KEY, {key_of(100): tree})
    assert environment.folder.stat().st_mode & 0o222 == 0
    assert (environment.folder / "pyvenv.cfg").stat().st_mode & 0o222 == 0
    assert (environment.folder / SITE / "gadget").stat().st_mode & 0o222 == 0
    assert (environment.folder / SITE / "gadget" / "__init__.py").stat().st_mode & 0o222 == 0


def test_the_second_of_two_publishers_takes_the_first_result(store: Store) -> None:
    first = publish_environment(store, KEY)
    inode = first.folder.stat().st_ino
    assert publish_environment(store, KEY) == first
    assert first.folder.stat().st_ino == inode
    assert list(store.building.iterdir()) == []


def test_a_manifest_of_other_files_is_an_error(store: Store) -> None:
    with store.new_building_folder() as building, pytest.raises(ValueError, match="of other files"):
        store.publish(building, manifest_of(KEY, files="0" * 64), files=())


def test_a_failure_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="full"):
        publish_environment(store, KEY, before_publishing=fail)
    assert store.find(KEY) is None
    assert list(store.building.iterdir()) == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a file system of one MiB."""
    (place := tmp_path / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.root
@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_nothing_of_the_build(full_disk: Path, tmp_path: Path) -> None:
    small, large = Store(full_disk / "store"), Store(tmp_path / "store")
    tree = tree_in(large, make_wheel(tmp_path, files={"large.bin": os.urandom(2 << 20)}), key_of(100))
    with pytest.raises(BuildFailed, match=r"No space left.*sandbox env prune"):
        publish_environment(small, KEY, {key_of(100): tree})
    assert list(small.building.iterdir()) == []

    def fill() -> None:
        (full_disk / "filling").write_bytes(b"x" * shutil.disk_usage(full_disk).free)

    with pytest.raises(BuildFailed, match="No space left"):
        publish_environment(small, KEY, before_publishing=fill)
    assert small.find(KEY) is None
    assert list(small.building.iterdir()) == []
    (full_disk / "filling").unlink()
    publish_environment(small, KEY)
    assert small.verify(KEY).is_intact


RACING: Final = """
def ready():
    tell("ready")
    wait()
published = publish_environment(store, key_of(1), before_publishing=ready)
tell(published.folder.stat().st_ino)
wait()
"""


@pytest.mark.slow
def test_two_processes_that_publish_at_once_agree_on_one(store: Store) -> None:
    with running(RACING, store.root) as first, running(RACING, store.root) as second:
        assert [heard(first), heard(second)] == ["ready", "ready"]
        nudge(first)
        nudge(second)
        inodes = {heard(first), heard(second)}
        nudge(first)
        nudge(second)
        assert [first.wait(), second.wait()] == [0, 0]
    found = store.find(KEY)
    assert found is not None
    assert inodes == {str(found.folder.stat().st_ino)}
    assert list(store.building.iterdir()) == []


PUBLISHING: Final = """
from sandbox.environments.store.trees import load_tree
tree = load_tree(store, key_of(100))
tell("begins")
number = 0
while True:
    publish_environment(store, key_of(number % 7), {key_of(100): tree})
    store.discard(store.environments / key_of((number - 3) % 7))
    store.remember_failure(key_of(number % 7), BuildFailed("none", log="said"), ttl_s=60)
    number += 1
"""


@pytest.mark.slow
def test_a_publisher_killed_at_any_moment_leaves_a_working_store(store: Store, tree: TreeReport) -> None:
    chance = random.Random(1)
    for _ in range(12):
        with running(PUBLISHING, store.root) as publisher:
            assert heard(publisher) == "begins"
            time.sleep(chance.uniform(0, 0.06))  # the moment of the kill varies
            publisher.kill()
            publisher.wait()
        fresh = Store(store.root)
        names = set(fresh.environment_keys())
        assert {key for key in names if fresh.find(key) is None} == set()
        assert all(fresh.verify(key).is_intact for key in names)
    fresh.prune()
    assert list(store.building.iterdir()) == []
    for number in range(7):
        publish_environment(store, key_of(number))
        assert store.verify(key_of(number)).is_intact


# Using


def test_a_use_marks_the_time_at_most_once_a_minute(store: Store) -> None:
    used = publish_environment(store, KEY).home / "used"
    os.utime(used, (1, 1))
    store.touch(KEY)
    assert abs(used.stat().st_mtime - time.time()) < 60
    os.utime(used, (1, 1))
    store.touch(KEY)
    assert used.stat().st_mtime == 1
    Store(store.root).touch(KEY)
    assert used.stat().st_mtime != 1


def test_a_missing_environment_cannot_be_used(store: Store) -> None:
    assert store.use(KEY) is None
    store.touch(KEY)


def test_a_use_is_released(store: Store) -> None:
    publish_environment(store, KEY)
    use = store.use(KEY)
    assert use is not None
    with use:
        assert store.prune(older_than_s=-1).in_use == (KEY,)
    assert store.prune(older_than_s=-1).environments == (KEY,)


def test_a_hanging_prune_blocks_no_use_endlessly(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_PRUNE_PATIENCE_S", 0.05)
    publish_environment(store, KEY)
    with locked_file(store.locks / f"{KEY}.use"), pytest.raises(EnvironmentUnavailable, match="is being pruned"):
        store.use(KEY)


# Listing


def test_all_environments_are_listed_the_last_used_first(store: Store) -> None:
    for number in range(3):
        os.utime(publish_environment(store, key_of(number)).home / "used", (number, number))
    assert [environment.key for environment in store.list()] == [key_of(2), key_of(1), key_of(0)]
    assert store.list()[0].last_used == 2


def test_a_prefix_shows_its_environment(store: Store) -> None:
    publish_environment(store, "aa" + "0" * 62)
    publish_environment(store, "ab" + "0" * 62)
    assert store.show("aa").key == "aa" + "0" * 62
    for prefix, complaint in {
        "a": "2 environments begin",
        "c": "no environment",
        "": "no environment",
        "*": "no",
    }.items():
        with pytest.raises(SpecError, match=complaint):
            store.show(prefix)


# Verifying


def _change(path: str, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / path).chmod(0o644)
        (folder / path).write_bytes(data)

    return change


def _add(folder: Path) -> None:
    (folder / SITE / "sitecustomize.py").write_text("import os")


def _take(folder: Path) -> None:
    (folder / SITE / "single.py").unlink()


def _bend(folder: Path) -> None:
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to("/tmp/evil")


def _replace_by_link(folder: Path) -> None:
    (folder / SITE / "single.py").unlink()
    (folder / SITE / "single.py").symlink_to("/etc/passwd")


def _make_program(folder: Path) -> None:
    (folder / "pyvenv.cfg").chmod(0o755)


def _rewrite_list(folder: Path) -> None:
    listed = folder.parent / "files"
    text = listed.read_text()
    listed.unlink()
    listed.write_text(text.replace(" f ", " x ", 1))


TAMPERED: Final = {
    "a changed file": (_change(f"{SITE}/single.py", b"x = 2\n"), ("changed", f"{SITE}/single.py")),
    "changed bytecode": (_change(BYTECODE, b""), ("changed", BYTECODE)),
    "a file more": (_add, ("extra", f"{SITE}/sitecustomize.py")),
    "a file less": (_take, ("missing", f"{SITE}/single.py")),
    "another interpreter": (_bend, ("changed", "bin/python")),
    "a link for a file": (_replace_by_link, ("changed", f"{SITE}/single.py")),
    "a file that may be executed": (_make_program, ("changed", "pyvenv.cfg")),
    "another list": (_rewrite_list, ("changed", "../files")),
}


def _open(folder: Path) -> None:
    for parent, _, _ in os.walk(folder):
        Path(parent).chmod(0o755)


@pytest.mark.parametrize(("tamper", "found"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_found_by_name(
    tamper: Callable[[Path], None], found: tuple[str, str], store: Store, tree: TreeReport
) -> None:
    environment = publish_environment(store, KEY, {key_of(100): tree}, copy=True)
    _open(environment.folder)
    tamper(environment.folder)
    report = store.verify(KEY[:8])
    assert found[1] in getattr(report, found[0])
    with pytest.raises(EnvironmentTampered, match=found[1].rpartition("/")[2]):
        report.raise_if_tampered()


def test_an_unchanged_environment_is_intact(store: Store, tree: TreeReport) -> None:
    publish_environment(store, KEY, {key_of(100): tree})
    report = store.verify(KEY)
    report.raise_if_tampered()
    assert report.is_intact
    assert report.files == len(tree.files) + 2


def test_a_change_in_a_tree_is_found_in_every_environment(store: Store, tree: TreeReport) -> None:
    for number in range(2):
        publish_environment(store, key_of(number), {key_of(100): tree})
    (tree.folder / "single.py").chmod(0o644)
    (tree.folder / "single.py").write_text("x = 3\n")
    assert [store.verify(key_of(number)).changed for number in range(2)] == [(f"{SITE}/single.py",)] * 2


# Failures


def test_a_failure_is_remembered_for_a_while(store: Store) -> None:
    store.remember_failure(KEY, BuildFailed("no such package", log="all that was said"), ttl_s=60)
    failure = store.failure(KEY)
    assert failure is not None
    assert failure.reason == "no such package"
    assert failure.log is not None
    assert failure.log.read_text() == "all that was said"
    assert store.failure(key_of(2)) is None


def test_a_remembered_failure_has_its_remedy(store: Store) -> None:
    store.remember_failure(KEY, BuildFailed("it is too large", remedy="ask for less"), ttl_s=60)
    failure = store.failure(KEY)
    assert failure is not None
    assert re.match(r"ask for less; it failed a moment ago; try again in \d+ s", str(failure.error().remedy))


def test_an_old_failure_is_ignored(store: Store) -> None:
    store.remember_failure(KEY, BuildFailed("then"), ttl_s=0)
    assert store.failure(KEY) is None


def test_a_clock_that_was_set_back_keeps_no_failure_alive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.remember_failure(KEY, BuildFailed("then"), ttl_s=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert store.failure(KEY) is None


def test_a_success_forgets_the_failure(store: Store) -> None:
    store.remember_failure(KEY, BuildFailed("then"), ttl_s=60)
    publish_environment(store, KEY)
    assert store.failure(KEY) is None


def test_long_reasons_and_logs_are_kept_short(store: Store) -> None:
    store.remember_failure(KEY, BuildFailed("r" * 100_000, log="l" * (3 << 20) + "the end"), ttl_s=60)
    failure = store.failure(KEY)
    assert failure is not None
    assert failure.log is not None
    assert len(failure.reason) == 4000
    assert failure.log.stat().st_size == 1 << 20
    assert failure.log.read_text().endswith("the end")


def test_a_malformed_failure_is_ignored(store: Store) -> None:
    (store.failed / f"{KEY}.json").write_text("{")
    assert store.failure(KEY) is None


# Owners


def test_box_users_may_pass_through_and_not_reach_the_locks(store: Store) -> None:
    passable = 0o711 if os.geteuid() == 0 else 0o700
    folders = [store.root, *(path for path in store.root.iterdir() if path.is_dir())]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folders}
    closed = {"skeletons", "resolutions", "locks", "failed", "logs"}
    assert modes == {name: 0o700 if name in closed else passable for name in modes}
    assert stat.S_IMODE((store.root / "sandbox-store").stat().st_mode) == 0o600


def test_a_umask_changes_nothing(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        folder = publish_environment(Store(tmp_path / "store"), KEY).folder
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o555
    assert stat.S_IMODE((folder / "pyvenv.cfg").stat().st_mode) == 0o444
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o755


def test_a_store_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o777)
    with pytest.raises(EnvironmentUnavailable, match="others may write"):
        Store(tmp_path / "store")


@pytest.mark.root
def test_a_store_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.chown(tmp_path / "store", 65534, 65534)
    with pytest.raises(EnvironmentUnavailable, match="belongs to user 65534"):
        Store(tmp_path / "store")


@pytest.mark.parametrize("place", ["file/store", "file", "folder"])
def test_a_store_that_cannot_be_created_names_the_remedy(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "wheels").write_text("")
    with pytest.raises(EnvironmentUnavailable, match="SANDBOX_STORE"):
        Store(tmp_path / place)


def test_the_default_place_of_a_store_follows_the_environment() -> None:
    assert default_root({"SANDBOX_STORE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert default_root({"XDG_CACHE_HOME": "/b"}) == Path("/b/sandbox")
    assert default_root({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "sandbox"
    assert default_root({}) == Path.home() / ".cache" / "sandbox"


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"first")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "folder", b"second")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


# Sharing


@pytest.mark.slow
def test_ten_environments_with_one_package_cost_about_one(store: Store, tmp_path: Path) -> None:
    files = {f"large/part{number}.bin": os.urandom(512 << 10) for number in range(20)}
    tree = tree_in(store, make_wheel(tmp_path, name="large", files=files), key_of(100))
    publish_environment(store, key_of(0), {key_of(100): tree})
    one = _disk_usage(store.root)
    for number in range(1, 10):
        publish_environment(store, key_of(number), {key_of(100): tree})
    assert _disk_usage(store.root) <= 1.15 * one
    assert sum(environment.manifest.bytes_own for environment in store.list()) < 0.2 * one
    copied = publish_environment(store, key_of(11), {key_of(100): tree}, copy=True).manifest
    assert copied.bytes_own == copied.bytes_total > 0.8 * tree.facts.bytes_on_disk


def _disk_usage(folder: Path) -> int:
    answer = subprocess.run(["du", "-s", "-B1", folder], capture_output=True, text=True, check=True)
    return int(answer.stdout.split()[0])


AS_ANYONE: Final = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from sandbox.environments.lock import Lock
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.disk.file_inventory import list_digest, take_inventory
from sandbox.environments.store.store import Store
store = Store(Path(sys.argv[1]) / "store")
with store.new_building_folder() as building:
    (building.folder / "environment" / "deep" / "deeper").mkdir(parents=True)
    (building.folder / "environment" / "deep" / "deeper" / "file").write_text("text")
    stock = take_inventory(building.folder / "environment")
    manifest = Manifest(key="a" * 64, lock=Lock(requirements=(), interpreter="cp311", packages=()), interpreter={},
        created=datetime.now(UTC), builder="b", files=list_digest(stock.files), trees=(), modules=(), pth=False,
        bytes_total=stock.bytes_total, bytes_own=stock.bytes_own)
    store.publish(building, manifest, files=stock.files)
found = store.find("a" * 64)
assert not os.access(found.folder / "deep" / "deeper", os.W_OK)
assert store.prune(older_than_s=-1).environments == ("a" * 64,)
assert list(store.environments.iterdir()) == list(store.building.iterdir()) == []
print(oct(store.root.stat().st_mode & 0o777))
"""


@pytest.mark.slow
def test_everything_works_for_a_user_without_rights(unprivileged_python: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sandbox-store-") as folder:
        os.chmod(folder, 0o777)
        answer = subprocess.run(
            [unprivileged_python, "-I", "-c", AS_ANYONE, folder],
            capture_output=True,
            text=True,
            check=False,
            **AS_NOBODY,
        )
    assert (answer.returncode, answer.stdout) == (0, "0o700\n"), answer.stderr
