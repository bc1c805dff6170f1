"""Wheels arrive complete, as locked, and once."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.environments.builds import wheels as wheels_module
from sandbox.environments.builds.wheels import fetch_wheels
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.lock import LockedPackage
from sandbox.errors import BuildFailed, IndexUnavailable, WheelGone
from tests.indexes import LocalIndex, make_wheel, opened_client, sha256_of


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as running:
        running.add("child", "2.0", {"child.py": "answer = 42"})
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


def _locked(wheel: Path, **fields: Any) -> LockedPackage:
    name, version, *_ = wheel.name.split("-")
    known: dict[str, Any] = {"size": wheel.stat().st_size, "sha256": sha256_of(wheel), **fields}
    return LockedPackage(name=name.replace("_", "-"), version=version, wheel=wheel.name, **known)


def _fetch(wheel: Path, settings: IndexSettings, store: Path, **others: Any) -> Path:
    package = _locked(wheel)
    return _fetch_all([package], settings, store, **others)[package.sha256]


def _fetch_all(packages: list[LockedPackage], settings: IndexSettings, store: Path, **others: Any) -> dict[str, Path]:
    """Fetch from an index that serves wheels under their own names, or from the given origins."""
    origins = {
        each.sha256: f"{index.url.removesuffix('/simple')}/files/{each.wheel}"
        for index in settings.indexes
        for each in packages
    }
    arguments: dict[str, Any] = {"origins": origins, **others}
    with opened_client(settings, store.parent / "proxy") as client:
        return fetch_wheels(packages, client=client, store=store, **arguments)


def _leftovers(store: Path) -> list[str]:
    return [entry.name for entry in (store / ".partial").iterdir()]


def _files(index: LocalIndex) -> list[str]:
    return [asked for asked in index.asked if "/files/" in asked]


def test_a_wheel_is_found_on_its_index_and_kept(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    place = _fetch(wheel, index.settings(), store)
    assert place == store / sha256_of(wheel) / wheel.name
    assert place.read_bytes() == wheel.read_bytes()
    assert place.stat().st_mode & 0o777 == 0o444
    assert _leftovers(store) == []


def test_a_wheel_in_the_store_is_not_requested(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    first = _fetch(wheel, index.settings(), store)
    asked = len(index.asked)
    assert _fetch(wheel, index.settings(), store) == first
    assert len(index.asked) == asked


def test_the_address_of_the_resolution_is_tried_first(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    _fetch(wheel, index.settings(), store, origins={sha256_of(wheel): index.file_url(wheel)})
    assert index.asked == [f"GET /files/{wheel.name}"]


@pytest.mark.slow
def test_all_wheels_of_a_lock_are_fetched_each_once(index: LocalIndex, store: Path) -> None:
    made = [index.add(f"package{number}", "1.0", {"x.py": str(number)}) for number in range(20)]
    packages = [_locked(wheel) for wheel in made]
    found = _fetch_all([*packages, packages[0]], index.settings(), store)
    assert {sha256: sha256_of(place) for sha256, place in found.items()} == {
        each.sha256: each.sha256 for each in packages
    }
    assert len(_files(index)) == len(made)


def test_a_caller_sees_the_progress(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    told: list[tuple[str, int, int | None]] = []
    _fetch(wheel, index.settings(), store, on_progress=lambda *what: told.append(what))
    size = wheel.stat().st_size
    assert (told[0], told[-1]) == (("child", 0, size), ("child", size, size))


def test_a_corrupted_wheel_in_the_store_is_replaced(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    place = _fetch(wheel, index.settings(), store)
    place.chmod(0o644)
    place.write_bytes(place.read_bytes()[::-1])
    assert sha256_of(_fetch(wheel, index.settings(), store)) == sha256_of(wheel)


def test_a_link_in_the_store_is_not_followed(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    place = store / sha256_of(wheel) / wheel.name
    place.parent.mkdir(parents=True)
    place.symlink_to(wheel)
    found = _fetch(wheel, index.settings(), store)
    assert not found.is_symlink()


def test_bytes_other_than_locked_are_refused(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    index.corrupted.add(wheel.name)
    with pytest.raises(BuildFailed, match="is not the file that was locked: its SHA-256 is not"):
        _fetch(wheel, index.settings(), store)
    assert (_leftovers(store), (store / sha256_of(wheel)).exists()) == ([], False)
    assert len(_files(index)) == 1


def test_a_file_longer_than_locked_is_not_read_to_its_end(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    package = _locked(wheel, size=10)
    with pytest.raises(BuildFailed, match="is not the file that was locked: it is longer than 10 bytes"):
        _fetch_all([package], index.settings(), store)
    assert _leftovers(store) == []


def test_a_vanished_file_is_reported(index: LocalIndex, store: Path) -> None:
    package = _locked(index.wheels("child")[0])
    index.wheels("child")[0].unlink()
    with pytest.raises(WheelGone, match=r"no index has child-2\.0"):
        _fetch_all([package], index.settings(), store)


@pytest.mark.slow
def test_a_download_that_breaks_off_is_begun_again(index: LocalIndex, store: Path) -> None:
    index.breaks_off = 2
    wheel = index.wheels("child")[0]
    assert sha256_of(_fetch(wheel, index.settings(), store)) == sha256_of(wheel)
    assert (len(_files(index)), _leftovers(store)) == (3, [])


@pytest.mark.slow
def test_a_download_that_always_breaks_off_is_an_index_that_is_down(index: LocalIndex, store: Path) -> None:
    index.breaks_off = 1000
    with pytest.raises(IndexUnavailable, match="it broke off"):
        _fetch(index.wheels("child")[0], index.settings(), store)
    assert (len(_files(index)), _leftovers(store)) == (4, [])


@pytest.mark.slow
def test_an_index_that_sends_byte_by_byte_is_abandoned(index: LocalIndex, store: Path) -> None:
    index.drips = "/files/"
    with pytest.raises(IndexUnavailable, match="it sends too slowly"):
        _fetch(index.wheels("child")[0], index.settings(), store, within_s=0.2)
    assert _leftovers(store) == []


def test_an_index_that_is_busy_for_a_moment_is_asked_again(index: LocalIndex, store: Path) -> None:
    index.busy = 2
    wheel = index.wheels("child")[0]
    assert sha256_of(_fetch(wheel, index.settings(), store)) == sha256_of(wheel)


def _down(index: LocalIndex) -> None:
    index.close()


def _busy(index: LocalIndex) -> None:
    index.busy = -1


def _silent(index: LocalIndex) -> None:
    index.form = "silent"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("go_wrong", "reason"),
    [(_down, "no connection"), (_busy, "it answers 503"), (_silent, "no answer within 0.1 s")],
)
def test_a_silent_index_differs_from_one_that_has_nothing(
    index: LocalIndex, store: Path, go_wrong: Callable[[LocalIndex], None], reason: str
) -> None:
    settings = replace(index.settings(), timeout_s=0.1)
    go_wrong(index)
    with pytest.raises(IndexUnavailable, match=reason) as caught:
        _fetch(index.wheels("child")[0], settings, store)
    assert (caught.value.retryable, _leftovers(store)) == (True, [])
    with pytest.raises(BuildFailed, match="no index has"):
        _fetch(index.wheels("child")[0], IndexSettings(), store)


def test_no_login_shows_in_an_error(index: LocalIndex, store: Path) -> None:
    index.login = ("bob", "right")
    settings = replace(index.settings(), indexes=(Index(index.url, ("bob", "hunter2")),))
    wheel = index.wheels("child")[0]
    hint = index.file_url(wheel).replace("//", "//bob:hunter2@") + "?token=hunter2"
    with pytest.raises(IndexUnavailable, match="401") as caught:
        _fetch(wheel, settings, store, origins={sha256_of(wheel): hint})
    assert "hunter2" not in str(caught.value)


def test_offline_a_folder_of_wheels_or_of_pages_is_enough(index: LocalIndex, store: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "house", "house", "1.0")
    offline = replace(index.settings(), offline=True)
    found = _fetch(wheel, replace(offline, find_links=(str(wheel.parent),)), store)
    assert sha256_of(found) == sha256_of(wheel)
    assert not os.path.samefile(found, wheel)
    child = index.wheels("child")[0]
    origins = {sha256_of(child): child.as_uri()}
    assert _fetch(child, offline, store, origins=origins).exists()
    assert index.asked == []


def test_offline_nothing_is_requested_and_the_error_names_the_wheels(index: LocalIndex, store: Path) -> None:
    wheel = index.wheels("child")[0]
    with pytest.raises(BuildFailed, match=r"child-2.0.*offline"):
        _fetch(
            wheel,
            replace(index.settings(), offline=True),
            store,
            origins={sha256_of(wheel): index.file_url(wheel)},
        )
    assert index.asked == []


@pytest.mark.slow
def test_a_failed_download_ends_the_others(index: LocalIndex, store: Path) -> None:
    big = index.add("big", "1.0", {"big.bin": os.urandom(8 << 20)})
    index.corrupted.add("child-2.0-py3-none-any.whl")
    packages = [_locked(big), _locked(index.wheels("child")[0])]
    never = threading.Event()

    def dawdle(name: str, done: int, total: int | None) -> None:
        if name == "big":
            never.wait(0.1)

    with pytest.raises(BuildFailed):
        _fetch_all(packages, index.settings(), store, on_progress=dawdle)
    assert (_leftovers(store), (store / sha256_of(big)).exists()) == ([], False)


def test_an_exception_of_the_progress_ends_the_download(index: LocalIndex, store: Path) -> None:
    def refuse(name: str, done: int, total: int | None) -> None:
        raise KeyError(name)

    with pytest.raises(KeyError):
        _fetch(index.wheels("child")[0], index.settings(), store, on_progress=refuse)
    assert _leftovers(store) == []


_ROOT: Final = str(Path(__file__).parents[3])
_FETCH: Final = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv.pop(1))
from pathlib import Path
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.lock import LockedPackage
from sandbox.environments.builds.wheels import fetch_wheels
from tests.indexes import opened_client
url, store, name, sha256, most = sys.argv[1:]
if int(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
def tell(_name, done, _total):
    print(done, flush=True)
package = LockedPackage(name=name.partition("-")[0], version="1.0", wheel=name, sha256=sha256)
try:
    origins = {sha256: f"{url.removesuffix('/simple')}/files/{name}"}
    with opened_client(IndexSettings((Index(url),)), Path(store).parent / f"proxy-{os.getpid()}") as client:
        fetch_wheels([package], client=client, origins=origins, store=Path(store), on_progress=tell)
    print("done")
except Exception as error:
    print(type(error).__name__, error)
"""


def _start(index: LocalIndex, wheel: Path, store: Path, *, most_bytes: int = 0) -> subprocess.Popen[str]:
    arguments = [index.url, str(store), wheel.name, sha256_of(wheel), str(most_bytes)]
    return subprocess.Popen([sys.executable, "-c", _FETCH, _ROOT, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_full_disk_is_reported_and_nothing_is_left(index: LocalIndex, store: Path) -> None:
    wheel = index.add("big", "1.0", {"big.bin": os.urandom(4 << 20)})
    with _start(index, wheel, store, most_bytes=1 << 20) as process:
        said, _ = process.communicate(timeout=60)
    assert "StoreUnwritable there is no room left for wheels in" in said
    assert (_leftovers(store), list(store.glob("*/*.whl"))) == ([], [])


@pytest.mark.slow
@pytest.mark.root
def test_a_full_file_system_is_reported_and_nothing_is_left(index: LocalIndex, store: Path) -> None:
    wheel = index.add("big", "1.0", {"big.bin": os.urandom(4 << 20)})
    store.mkdir()
    script = f'mount -t tmpfs -o size=1m none "{store}" && "$@"; find "{store}" -type f'
    arguments = [index.url, str(store), wheel.name, sha256_of(wheel), "0"]
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", _FETCH, _ROOT, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.splitlines()[-1].startswith("StoreUnwritable there is no room left for wheels in")


@pytest.mark.slow
def test_a_killed_download_leaves_a_working_store(index: LocalIndex, store: Path) -> None:
    wheel = index.add("big", "1.0", {"big.bin": os.urandom(16 << 20)})
    with _start(index, wheel, store) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and int(line) < 1 << 20:
            pass
        process.send_signal(signal.SIGKILL)
    assert list(store.glob("*/*.whl")) == []
    assert len(_leftovers(store)) == 1
    assert sha256_of(_fetch(wheel, index.settings(), store)) == sha256_of(wheel)
    assert len(_leftovers(store)) == 1
    an_hour_ago = time.time() - wheels_module.STALE_S - 1
    os.utime(store / ".partial" / _leftovers(store)[0], (an_hour_ago, an_hour_ago))
    _fetch(wheel, index.settings(), store)
    assert _leftovers(store) == []


@pytest.mark.slow
def test_many_processes_that_fetch_one_wheel_all_get_it(index: LocalIndex, store: Path) -> None:
    wheel = index.add("big", "1.0", {"big.bin": os.urandom(1 << 20)})
    processes = [_start(index, wheel, store) for _ in range(4)]
    said = []
    for process in processes:
        with process:
            said.append(process.communicate(timeout=60)[0].splitlines()[-1])
    assert said == ["done"] * 4
    assert [hashlib.sha256(place.read_bytes()).hexdigest() for place in store.glob("*/*.whl")] == [sha256_of(wheel)]
    assert _leftovers(store) == []
