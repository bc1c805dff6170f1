"""A bundle may be written to a new file or over a plain one, and never over anything else."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.bundles.exporting import export_bundle
from sandbox.environments.store.store import Store
from sandbox.errors import SpecError
from tests.unit.environments.made_wheels import key_of, publish_environment

KEY: Final = key_of(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with an empty environment."""
    store = Store(tmp_path / "store")
    publish_environment(store, KEY)
    return store


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(place))


def _folder(place: Path) -> None:
    place.mkdir()


def _link_to_a_file(place: Path) -> None:
    (place.parent / "file").write_text("kept")
    place.symlink_to("file")


def _link_to_nothing(place: Path) -> None:
    place.symlink_to("nothing")


def _link_to_a_device(place: Path) -> None:
    place.symlink_to("/dev/null")


STRANGE: Final = (_pipe, _socket, _folder, _link_to_a_file, _link_to_nothing, _link_to_a_device)


def _refused(store: Store, place: Path) -> None:
    before = place.lstat()
    with pytest.raises(SpecError, match="no plain file"):
        export_bundle(store, KEY, place)
    after = place.lstat()
    assert (stat.S_IFMT(after.st_mode), after.st_ino) == (stat.S_IFMT(before.st_mode), before.st_ino)


@pytest.mark.parametrize("make", STRANGE, ids=lambda make: make.__name__)
def test_a_special_file_is_not_replaced(make: Callable[[Path], None], store: Store, tmp_path: Path) -> None:
    make(tmp_path / "target")
    names = sorted(tmp_path.iterdir())
    _refused(store, tmp_path / "target")
    assert sorted(tmp_path.iterdir()) == names


@pytest.mark.root
def test_a_device_stays_a_device(store: Store, tmp_path: Path) -> None:
    os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    _refused(store, tmp_path / "null")


def test_a_bad_target_is_refused_before_the_environment_is_looked_up(store: Store, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no plain file"):
        export_bundle(store, key_of(2), tmp_path)


def test_a_plain_file_is_replaced(store: Store, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("older")
    report = export_bundle(store, KEY, tmp_path / "target")
    assert (tmp_path / "target").stat().st_size == report.size
