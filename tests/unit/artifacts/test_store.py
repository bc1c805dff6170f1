"""Kept content is whole, found by its digest, and removed oldest first, but never while in use."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from sandbox.errors import ArtifactMissing, ArtifactsUnavailable
from sandbox.outcome import Artifact
from sandbox.outputs.artifacts.store import ArtifactStore, QuotaReached, Retention, TenantStore
from sandbox.outputs.artifacts.writer import ArtifactWriter
from tests.checkout import ROOT

HOUR: Final = 3600


def keep(shelf: TenantStore, content: bytes, name: str = "a.txt") -> Artifact:
    with closing(ArtifactWriter(shelf)) as keeping:
        coming = keeping.begin()
        coming.write(content)
        return coming.keep(name)


def read(shelf: TenantStore, id: str) -> bytes:
    with shelf.open(id) as file:
        return file.read()


def ids(shelf: TenantStore) -> list[str]:
    return [each.artifact.id for each in shelf.everything()]


def age(store: Path, artifact: Artifact, *, hours: float) -> None:
    """Set the age of an artifact."""
    (path,) = store.glob(f"*/*/content/{artifact.digest}")
    then = time.time() - hours * HOUR
    os.utime(path, (then, then))


@pytest.fixture
def shelf(tmp_path: Path) -> TenantStore:
    return ArtifactStore(tmp_path).shelf()


def test_kept_content_is_found_by_its_digest(shelf: TenantStore) -> None:
    artifact = keep(shelf, b"content", "ä/b.txt")
    assert artifact.digest == hashlib.sha256(b"content").hexdigest()
    assert artifact.id == artifact.digest[:32]
    assert (artifact.name, artifact.bytes, artifact.mime) == ("ä/b.txt", 7, "text/plain")
    for id in (artifact.id, artifact.digest, artifact.id[:6], artifact.id[:1]):
        assert shelf.find(id) == artifact
        assert read(shelf, id) == b"content"


def test_few_digits_do_while_only_one_artifact_begins_with_them(shelf: TenantStore) -> None:
    kept = [keep(shelf, str(number).encode()) for number in range(17)]
    firsts = [artifact.id[0] for artifact in kept]
    for artifact in kept:
        if firsts.count(artifact.id[0]) == 1:
            assert shelf.find(artifact.id[0]) == artifact
        else:
            with pytest.raises(ArtifactMissing, match="artifacts begin with"):
                shelf.find(artifact.id[0])


def test_the_same_content_is_kept_once(shelf: TenantStore, tmp_path: Path) -> None:
    first, second = keep(shelf, b"same", "first"), keep(shelf, b"same", "second")
    assert (first.id, [first.name, second.name]) == (second.id, ["first", "second"])
    assert ids(shelf) == [first.id]
    assert len([path for path in tmp_path.rglob("*") if path.is_file() and path.name == first.digest]) == 2


@pytest.mark.parametrize("id", ["", "abc", "../../../etc/passwd", "0" * 32, "A" * 32, "0" * 65, "ü" * 10, "\0" * 8])
def test_missing_content_is_reported(shelf: TenantStore, id: str) -> None:
    keep(shelf, b"content")
    for ask in (shelf.find, shelf.open):
        with pytest.raises(ArtifactMissing, match="no artifact"):
            ask(id)


def test_no_folder_is_created_before_the_first_artifact(tmp_path: Path) -> None:
    shelf = ArtifactStore(tmp_path / "store").shelf()
    with closing(ArtifactWriter(shelf)):
        assert ids(shelf) == []
    assert not (tmp_path / "store").exists()


def test_dropped_content_leaves_nothing(shelf: TenantStore, tmp_path: Path) -> None:
    with closing(ArtifactWriter(shelf)) as keeping:
        keeping.begin().write(b"half")
        dropped = keeping.begin()
        dropped.drop()
        dropped.write(b"late")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_tenants_share_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    one, two = store.shelf("one"), store.shelf("../one")
    artifact = keep(one, b"secret")
    assert (ids(one), ids(two), ids(store.shelf())) == ([artifact.id], [], [])
    keep(two, b"secret", "other name")
    assert one.find(artifact.id).name == "a.txt"
    assert two.find(artifact.id).name == "other name"


def test_a_lost_name_is_recorded_again(shelf: TenantStore, tmp_path: Path) -> None:
    artifact = keep(shelf, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x06", "plot.png")
    assert (artifact.width, artifact.height) == (5, 6)
    (about,) = tmp_path.glob("*/*/about/*")
    for content in (b"", b"[]", b"{", b'{"name": 1}'):
        about.write_bytes(content)
        found = shelf.find(artifact.id)
        assert (found.mime, found.width, found.height) == ("image/png", 5, 6)


def test_content_above_the_age_limit_is_removed(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(age_s=2 * HOUR))
    old, young = keep(store.shelf(), b"old"), keep(store.shelf(), b"young")
    age(tmp_path, old, hours=3)
    assert store.prune() == 3
    assert ids(store.shelf()) == [young.id]


def test_content_kept_again_is_young_again(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(age_s=2 * HOUR))
    artifact = keep(store.shelf(), b"again")
    age(tmp_path, artifact, hours=3)
    keep(store.shelf(), b"again")
    assert store.prune() == 0
    assert ids(store.shelf()) == [artifact.id]


def test_over_the_tenants_quota_its_oldest_go(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(tenant_bytes=100))
    others = keep(store.shelf("other"), b"z" * 90)
    kept = [keep(store.shelf(), bytes([each]) * 40) for each in range(2)]
    for number, each in enumerate(kept):
        age(tmp_path, each, hours=2 - number)
    last = keep(store.shelf(), b"x" * 50)
    assert ids(store.shelf()) == [last.id, kept[1].id]
    assert ids(store.shelf("other")) == [others.id]


def test_content_above_the_quota_alone_is_refused(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(tenant_bytes=100))
    keep(store.shelf(), b"x" * 50)
    with pytest.raises(QuotaReached):
        keep(store.shelf(), b"y" * 101)


def test_above_the_total_the_oldest_go_across_tenants(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(total_bytes=100))
    kept = {tenant: keep(store.shelf(tenant), tenant.encode() * 20) for tenant in ("aa", "bb", "cc")}
    for hours, tenant in ((1, "aa"), (3, "bb"), (2, "cc")):
        age(tmp_path, kept[tenant], hours=hours)
    assert store.prune() == 40
    assert [ids(store.shelf(tenant)) for tenant in kept] == [[kept["aa"].id], [], [kept["cc"].id]]


def test_an_engine_prunes_without_being_asked(tmp_path: Path) -> None:
    old = keep(ArtifactStore(tmp_path).shelf("one"), b"old")
    age(tmp_path, old, hours=24 * 30)
    store = ArtifactStore(tmp_path)
    keep(store.shelf("two"), b"new")
    assert ids(store.shelf("one")) == []


def test_content_held_by_a_running_call_stays(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(age_s=HOUR, tenant_bytes=100))
    with closing(ArtifactWriter(store.shelf())) as keeping:
        coming = keeping.begin()
        coming.write(b"h" * 60)
        held = coming.keep("held")
        age(tmp_path, held, hours=2)
        store.prune()
        with pytest.raises(QuotaReached):
            keep(store.shelf(), b"x" * 60)
        assert ids(store.shelf()) == [held.id]
    assert store.prune() == 60


def test_a_reader_reads_to_the_end_during_removal(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(age_s=HOUR))
    artifact = keep(store.shelf(), b"x" * 1000)
    with store.shelf().open(artifact.id) as file:
        age(tmp_path, artifact, hours=2)
        store.prune()
        assert file.read() == b"x" * 1000


WRITER: Final = """
import sys
from contextlib import closing
from pathlib import Path
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.artifacts.store import ArtifactStore
keeping = ArtifactWriter(ArtifactStore(Path(sys.argv[1])).shelf())
held = keeping.begin()
held.write(b"whole")
held.keep("whole")
half = keeping.begin()
half.write(b"half" * 100_000)
print("here", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_only_whole_content(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(age_s=HOUR))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], env=environment, **pipes) as writer:  # type: ignore[call-overload]
        assert writer.stdout.readline() == b"here\n"
        (whole,) = store.shelf().everything()
        age(tmp_path, whole.artifact, hours=2)
        store.prune()
        assert ids(store.shelf()) == [whole.artifact.id]
        writer.send_signal(signal.SIGKILL)
    left = [*tmp_path.glob("*/*/coming/*"), *tmp_path.glob("*/*/held/*")]
    assert len(left) == 2
    for path in left:  # as if some time had passed: a younger file may not be locked yet
        os.utime(path, (0, 0))
    assert store.prune() == 5
    assert [path for path in tmp_path.glob("*/*/*/*") if path.is_file()] == []


@pytest.mark.slow
def test_many_concurrent_writers_keep_all_their_content(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    contents = [bytes([each % 50]) * 1000 for each in range(200)]
    with ThreadPoolExecutor(16) as pool:
        kept = list(pool.map(lambda content: keep(store.shelf(), content), contents))
    assert [read(store.shelf(), each.id) for each in kept] == contents
    assert len(ids(store.shelf())) == 50


def test_a_store_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArtifactsUnavailable, match="cannot be kept"):
        keep(ArtifactStore(tmp_path / "file").shelf(), b"x")


def test_a_store_is_closed_to_other_users(shelf: TenantStore, tmp_path: Path) -> None:
    keep(shelf, b"private")
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("*/*/*")} == {0}
