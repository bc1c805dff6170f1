"""Well-formed files that come out of a box are kept; anything else ends the transfer with a warning."""

from __future__ import annotations

import json
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outputs.artifacts.receiver import DATA, END, FILE, OVER, REFUSED, FileRecords, ReceivedFiles
from sandbox.outputs.artifacts.store import ArtifactStore, Retention
from sandbox.outputs.artifacts.writer import ArtifactWriter


def record(kind: int, payload: bytes | dict[str, Any]) -> bytes:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return struct.pack(">IB", len(data) + 1, kind) + data


def file(name: str, content: bytes, *, refused: str | None = None) -> bytes:
    return (
        record(FILE, {"name": name, "bytes": len(content)}) + record(DATA, content) + record(END, {"refused": refused})
    )


OVER_NOW = record(OVER, {"more": 0})


def arrived(
    store: ArtifactStore, data: bytes, *, step: int = 1 << 20, is_expected: bool = False, **most: int
) -> ReceivedFiles:
    limits = {"most_files": 10, "most_bytes": 10_000, **most}
    with closing(ArtifactWriter(store.shelf())) as keeping:
        records = FileRecords(keeping, **limits)
        for start in range(0, len(data), step):
            records.feed(data[start : start + step])
        return records.result(is_expected=is_expected)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_files_are_kept_however_the_bytes_are_cut(store: ArtifactStore, step: int) -> None:
    data = file("a", b"one") + file("b/c", b"") + file("d", b"x", refused="it changed") + OVER_NOW
    found = arrived(store, data, step=step)
    assert [(each.name, each.bytes) for each in found.artifacts] == [("a", 3), ("b/c", 0)]
    assert [(each.name, each.reason) for each in found.refused] == [("d", "it changed")]


def test_a_call_without_files_has_no_warning(store: ArtifactStore) -> None:
    assert arrived(store, b"") == ReceivedFiles()


def test_a_missing_end_is_reported(store: ArtifactStore) -> None:
    (told,) = arrived(store, b"", is_expected=True).refused
    assert "before all of its files" in told.reason
    half = arrived(store, file("a", b"one") + record(FILE, {"name": "b", "bytes": 5}))
    assert [each.name for each in half.artifacts] == ["a"]
    assert len(half.refused) == 1


BAD = {
    "a name that leads out": file("../a", b"x"),
    "an absolute name": file("/etc/passwd", b"x"),
    "a name with a line break": file("a\nb", b"x"),
    "no name": file("", b"x"),
    "a long name": file("x" * 300, b"x"),
    "the same name twice": file("good", b"x"),
    "bytes of no file": record(DATA, b"x"),
    "an end of no file": record(END, {"refused": None}),
    "more bytes than announced": record(FILE, {"name": "a", "bytes": 1}) + record(DATA, b"xx"),
    "fewer bytes than announced": record(FILE, {"name": "a", "bytes": 5})
    + record(DATA, b"x")
    + record(END, {"refused": None}),
    "a file in a file": record(FILE, {"name": "a", "bytes": 1}) * 2,
    "more files than accepted": b"".join(file(f"n{number}", b"") for number in range(11)),
    "more bytes than accepted": record(FILE, {"name": "a", "bytes": 10_001}),
    "a negative size": record(FILE, {"name": "a", "bytes": -1}),
    "a size that is text": record(FILE, {"name": "a", "bytes": "1"}),
    "a size that is a boolean": record(FILE, {"name": "a", "bytes": True}),
    "no JSON": record(FILE, b"{"),
    "deep JSON": record(FILE, b"[" * 100_000),
    "a list": record(FILE, b"[]"),
    "an unknown kind": record(99, {}),
    "a record of no length": b"\0\0\0\0\0",
    "a record without end": b"\xff\xff\xff\xff\1",
    "something after the end": OVER_NOW + OVER_NOW,
}


@pytest.mark.parametrize("bad", BAD)
def test_an_invalid_record_ends_the_transfer_and_is_reported(store: ArtifactStore, bad: str, tmp_path: Path) -> None:
    found = arrived(store, file("good", b"x") + BAD[bad] + file("late", b"x") + OVER_NOW)
    names = [each.name for each in found.artifacts]
    assert names[0] == "good"
    assert "late" not in names
    assert len(found.refused) == 1
    assert list(tmp_path.glob("*/*/coming/*")) == []


def test_of_very_many_refusals_a_bounded_number_is_reported(store: ArtifactStore) -> None:
    many = b"".join(record(REFUSED, {"name": str(number), "reason": "x" * 1000}) for number in range(500))
    found = arrived(store, many + record(OVER, {"more": 70}))
    assert len(found.refused) == 61
    assert found.refused[-1].reason == "510 more are not taken"
    assert max(len(each.reason) for each in found.refused) <= 300


def test_a_quota_refuses_by_name(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, retention=Retention(tenant_bytes=10))
    found = arrived(store, file("small", b"x") + file("large", b"x" * 11) + OVER_NOW)
    assert [each.name for each in found.artifacts] == ["small"]
    assert [each.name for each in found.refused] == ["large"]


def test_a_store_that_refuses_every_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    changed = file("b", b"x", refused="it changed")
    found = arrived(ArtifactStore(tmp_path / "file"), file("a", b"x") + changed + file("c", b"y") + OVER_NOW)
    assert found.artifacts == ()
    assert [(each.name, each.is_lost) for each in found.refused] == [("a", True), ("b", False), ("c", True)]
    assert "the store takes nothing" in found.refused[0].reason


def test_a_lost_file_is_reported_also_among_very_many_refusals(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    links = b"".join(record(REFUSED, {"name": str(number), "reason": "a link"}) for number in range(60))
    refused = arrived(ArtifactStore(tmp_path / "file"), links + file("a", b"x") + OVER_NOW).refused
    assert [(each.name, each.is_lost) for each in refused[-2:]] == [("59", False), ("", True)]


def test_a_lost_file_that_also_breaks_off_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cut = record(FILE, {"name": "a", "bytes": 5}) + record(99, {})
    (refused,) = arrived(ArtifactStore(tmp_path / "file"), cut).refused
    assert (refused.name, refused.is_lost) == ("a", True)


@pytest.mark.slow
@given(st.lists(st.sampled_from([file("a", b"xy"), file("b", b""), OVER_NOW, *BAD.values()]) | st.binary(max_size=40)))
def test_any_bytes_have_an_end(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    store = ArtifactStore(tmp_path_factory.getbasetemp() / "any")
    found = arrived(store, b"".join(parts), step=11)
    assert len(found.refused) <= 3
    assert all(each.name in ("a", "b", "good") or each.name.startswith("n") for each in found.artifacts)
