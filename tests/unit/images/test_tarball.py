"""The same tree makes the same bytes, and a kept archive is used only while unchanged."""

from __future__ import annotations

import io
import os
import tarfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.errors import BackendUnavailable
from sandbox.images.tarball import Record, TarballCache, file_digest, write_tarball

INPUTS = "0" * 64


def packed(tree: Path, *, began: float) -> bytes:
    file = io.BytesIO()
    write_tarball(tree, file, began=began)
    return file.getvalue()


def make_tree(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_order_and_time_of_making_leave_no_trace(tmp_path: Path) -> None:
    names = ["usr/b", "usr/a", "etc/c"]
    first, second = make_tree(tmp_path / "1", names), make_tree(tmp_path / "2", names[::-1])
    began = time.time() - 60
    for path in second.rglob("*"):
        os.utime(path, (began + 30, began + 30))
    assert packed(first, began=began) == packed(second, began=began)


def test_the_modification_time_of_a_file_stays(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "1", ["a"])
    os.utime(tree / "a", (1e9, 1e9))
    with tarfile.open(fileobj=io.BytesIO(packed(tree, began=time.time() - 60))) as archive:
        assert archive.getmember("a").mtime == 1e9


@pytest.fixture
def cache(tmp_path: Path) -> TarballCache:
    kept = TarballCache(tmp_path / "cache")
    with kept.locked(INPUTS), kept.aside() as folder:
        tarball = folder / "image.tar"
        tarball.write_bytes(b"files")
        facts = {"name": "x", "recipe": "r", "made_from": "debian", "made_by": "me", "created": datetime.now(UTC)}
        kept.keep(Record(inputs=INPUTS, content=file_digest(tarball), bytes=5, **facts), tarball)
    return kept


def test_a_kept_archive_is_found(cache: TarballCache) -> None:
    record = cache.find(INPUTS)
    assert record is not None
    assert cache.tarball(INPUTS).read_bytes() == b"files"
    assert cache.find("1" * 64) is None


def test_no_temporary_file_is_left(cache: TarballCache) -> None:
    assert {path.suffix for path in cache.folder.iterdir()} <= {".tar", ".json", ".lock"}


@pytest.mark.parametrize("suffix", [".tar", ".json"])
@pytest.mark.parametrize("change", [b"", b"other"])
def test_a_changed_archive_is_not_used(suffix: str, change: bytes, cache: TarballCache) -> None:
    cache.tarball(INPUTS).with_suffix(suffix).write_bytes(change)
    assert cache.find(INPUTS) is None


def test_a_tarball_without_its_record_is_not_used(cache: TarballCache) -> None:
    cache.tarball(INPUTS).with_suffix(".json").unlink()
    assert cache.find(INPUTS) is None


def test_removed_archives_are_counted(cache: TarballCache) -> None:
    assert cache.remove(but=INPUTS) == 0
    assert cache.remove() == 5
    assert cache.find(INPUTS) is None


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(BackendUnavailable, match="others could change"), TarballCache(tmp_path / "open").locked(INPUTS):
        pass
