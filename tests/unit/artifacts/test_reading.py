"""A page of an artifact is exactly the requested part, and a search ends for every pattern."""

from __future__ import annotations

import io
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import ArtifactMissing, ArtifactsUnavailable, SpecError
from sandbox.outputs.artifacts.reading import MAX_PAGE_BYTES, Artifacts, Span, page_of_bytes, page_of_lines
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.outputs.artifacts.writer import ArtifactWriter

LINES: Final = b"".join(b"line %d\n" % number for number in range(1, 101))


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def kept(store: ArtifactStore) -> Artifacts:
    return Artifacts(store)


def keep(store: ArtifactStore, content: bytes, name: str = "a.txt") -> str:
    with closing(ArtifactWriter(store.shelf())) as keeping:
        coming = keeping.begin()
        coming.write(content)
        return coming.keep(name).id


@pytest.mark.parametrize(
    ("text", "span"), [("1:2", Span(1, 2)), ("5:", Span(5, None)), (":7", Span(None, 7)), ("0:0", Span(0, 0))]
)
def test_a_span_is_read(text: str, span: Span) -> None:
    assert Span.read(text, option="--lines") == span


@pytest.mark.parametrize("bounds", ["1:2", "12", 5, (1,), (1, 2, 3), ("1", 2), (1.0, 2), (-1, 2), b"12"])
@pytest.mark.parametrize("name", ["lines", "bytes"])
def test_bounds_that_are_no_pair_of_numbers_are_refused(store: ArtifactStore, name: str, bounds: Any) -> None:
    with pytest.raises(SpecError):
        Artifacts(store).show(keep(store, LINES), **{name: bounds})


def test_an_unwritable_target_is_reported_with_a_remedy(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(ArtifactsUnavailable, match="No such file or directory") as refused:
        Artifacts(store).save(keep(store, LINES), tmp_path / "none" / "x")
    assert refused.value.remedy == "name a file in a folder that is there, and that you may write to"


@pytest.mark.parametrize("odd", [None, 5, b"0123456789"])
def test_a_value_that_is_not_text_names_no_artifact_and_no_tenant(kept: Artifacts, odd: Any) -> None:
    for asked in (kept.find, kept.show, lambda id: kept.grep(id, "x"), lambda id: kept.save(id, "x")):
        with pytest.raises(SpecError, match="the id of an artifact is text, not "):
            asked(odd)
    with pytest.raises(SpecError, match="a tenant is text, not "):
        kept.list(tenant=odd)


def test_a_store_is_named_by_a_path_or_by_its_text(tmp_path: Path) -> None:
    assert ArtifactStore(str(tmp_path)).root == ArtifactStore(tmp_path).root
    with pytest.raises(SpecError, match="artifacts cannot be kept in 5"):
        ArtifactStore(5)  # type: ignore[arg-type]  # as who has no type checker may write it


@pytest.mark.parametrize("text", ["", ":", "5", "-1:2", "a:b", "1:2:3", "1:" + "9" * 30, " 1:2"])
def test_an_invalid_span_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--lines"):
        Span.read(text, option="--lines")


@given(st.lists(st.binary(max_size=10)), st.integers(0, 12), st.integers(0, 12))
def test_the_requested_lines_are_read(parts: list[bytes], first: int, last: int) -> None:
    data = b"\n".join(parts)
    lines = data.splitlines(keepends=True) if not {b"\r", b"\x0b"} & set(parts) else data.split(b"\n")
    lines = [each + b"\n" for each in data.split(b"\n")[:-1]] + [data.split(b"\n")[-1]]
    page = page_of_lines(io.BytesIO(data), Span(first, last), total=len(data))
    assert page.data == b"".join(lines[max(first, 1) - 1 : max(last, 0)])


@given(st.binary(max_size=50), st.integers(0, 60), st.integers(0, 60))
def test_the_requested_bytes_are_read(data: bytes, first: int, last: int) -> None:
    page = page_of_bytes(io.BytesIO(data), Span(first, last), total=len(data))
    assert page.data == data[first : max(first, last)]
    assert page.total == len(data)


def test_pages_follow_each_other_through_the_whole(store: ArtifactStore, kept: Artifacts) -> None:
    data = os.urandom(3 * MAX_PAGE_BYTES + 17)
    id, read, at = keep(store, data), b"", 0
    while at < len(data):
        page = kept.show(id, bytes=(at, None))
        assert page.is_cut is (at + MAX_PAGE_BYTES < len(data))
        read, at = read + page.data, page.end
    assert read == data


def test_lines_across_blocks_are_found(store: ArtifactStore, kept: Artifacts) -> None:
    data = b"".join(b"%d\n" % number for number in range(1, 200_001))
    page = kept.show(keep(store, data), lines=(150_000, 150_002))
    assert (page.text, page.first_line) == ("150000\n150001\n150002\n", 150_000)
    assert kept.show(keep(store, data), lines=(300_000, None)).data == b""


def test_one_long_line_is_given_in_pages(store: ArtifactStore, kept: Artifacts) -> None:
    id = keep(store, b"x" * (2 * MAX_PAGE_BYTES))
    page = kept.show(id, lines=(1, 1))
    assert (len(page.data), page.is_cut) == (MAX_PAGE_BYTES, True)


@pytest.mark.parametrize("bounds", [{"lines": (1, 2), "bytes": (1, 2)}, {"lines": (-1, 2)}, {"bytes": (0, -1)}])
def test_an_invalid_page_is_refused(store: ArtifactStore, kept: Artifacts, bounds: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        kept.show(keep(store, LINES), **bounds)


def test_a_missing_artifact_is_reported(kept: Artifacts) -> None:
    for ask in (kept.find, kept.show, lambda id: kept.grep(id, "x"), lambda id: kept.save(id, "/nowhere")):
        with pytest.raises(ArtifactMissing):
            ask("0" * 32)


def test_matches_are_lines_with_their_numbers(store: ArtifactStore, kept: Artifacts) -> None:
    matches = kept.grep(keep(store, LINES), r"^line \d0$")
    assert [(each.line, each.text) for each in matches.found] == [(n, f"line {n}") for n in range(10, 100, 10)]
    assert matches.is_whole
    assert kept.grep(keep(store, LINES), "LINE 7$").found == ()
    assert len(kept.grep(keep(store, LINES), "LINE 7$", ignore_case=True).found) == 1


def test_more_matches_than_requested_are_counted(store: ArtifactStore, kept: Artifacts) -> None:
    matches = kept.grep(keep(store, LINES), "line", most=3)
    assert ([each.line for each in matches.found], matches.is_whole) == ([1, 2, 3], False)


def test_a_match_far_behind_is_shown_in_its_place(store: ArtifactStore, kept: Artifacts) -> None:
    data = b"x" * 300_000 + b"needle" + b"y" * 300_000 + b"\nneedle\n"
    first, second = kept.grep(keep(store, data), "needle").found
    assert "needle" in first.text
    assert first.start + first.text.index("needle") == 300_000
    assert (second.line, second.start) == (2, 0)


def test_bytes_that_are_no_text_are_searched_as_text(store: ArtifactStore, kept: Artifacts) -> None:
    (match,) = kept.grep(keep(store, b"\xff\xfe needle \0\x1b[31m\n"), "needle").found
    assert match.text == "\ufffd\ufffd needle \0\x1b[31m"


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+$b", "(.*a){20}c"])
def test_an_endless_pattern_is_ended(store: ArtifactStore, kept: Artifacts, pattern: str) -> None:
    id = keep(store, b"a" * 5000 + b"\n")
    begun = time.process_time()
    matches = kept.grep(id, pattern, seconds=1.0)
    assert (matches.found, matches.is_whole) == ((), False)
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("pattern", ["(", "a" * 1001, "\0", "(?P<a", "x{99999999999}"])
def test_an_invalid_pattern_is_refused(store: ArtifactStore, kept: Artifacts, pattern: str) -> None:
    with pytest.raises(SpecError):
        kept.grep(keep(store, LINES), pattern)


def test_an_artifact_is_saved_as_a_file(store: ArtifactStore, kept: Artifacts, tmp_path: Path) -> None:
    id = keep(store, b"content", "sub/plot.txt")
    assert kept.save(id, tmp_path / "copy").read_bytes() == b"content"
    assert kept.save(id, tmp_path) == tmp_path / "plot.txt"
    with pytest.raises(SpecError, match="there already"):
        kept.save(id, tmp_path / "copy")
    other = keep(store, b"other")
    assert kept.save(other, tmp_path / "copy", replace=True).read_bytes() == b"other"
    with pytest.raises(ArtifactsUnavailable, match="cannot be written"):
        kept.save(id, tmp_path / "no" / "such" / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "plot.txt", "store"]
