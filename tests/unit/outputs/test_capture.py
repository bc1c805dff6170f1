"""A captured stream is shaped exactly like the whole stream, and stays small and fast."""

from __future__ import annotations

import json
import re
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Shaped
from sandbox.outputs.capture import Capture
from sandbox.outputs.shapes import SHAPES
from sandbox.outputs.shaping import shape

MEBIBYTE = 1024 * 1024
CHUNK = 64 * 1024
MENDED = "invalid UTF-8 is shown as U+FFFD"
NOTICE = re.compile(r"\[… [^…]*…\]")
PIECE = st.sampled_from(
    [b"a", b"bc", b"\n", b"\r\n", b"\r", "é".encode(), "e\u0301".encode(), "漢".encode(), "👩\u200d🔬".encode()]
)
BROKEN = st.sampled_from([b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf"])
STREAM = st.lists(PIECE | BROKEN, max_size=60).map(b"".join)
VALID_STREAM = st.lists(PIECE, max_size=60).map(b"".join)
CONTROLS = [
    b"\r",
    b"\b",
    b"\x1b[31m",
    b"\x1b[K",
    b"\x1b[2C",
    b"\x1b",
    b"error: x\n",
    b'  File "t.py", line 1\n',
    b"    a()\n",
]
PRINTED = st.lists(PIECE | BROKEN | st.sampled_from(CONTROLS), max_size=60).map(b"".join)
STEPS = st.lists(st.integers(1, 9), min_size=1, max_size=8)
TYPE = st.sampled_from(list(SHAPES))
EXACT_TYPE = st.sampled_from(["knowledge_content", "file_content", "file_view_result"])
SHOWN = st.integers(0, 9)  # small compared to the stream, so that most streams lose their middle


def pieces(data: bytes, *, steps: list[int]) -> Iterator[bytes]:
    at = number = 0
    while at < len(data):
        step = steps[number % len(steps)]
        yield data[at : at + step]
        at, number = at + step, number + 1


def without_repair_notice(shaped: Shaped) -> Shaped:
    """Remove the notice about invalid UTF-8, because decoded text no longer shows the broken bytes."""
    parts = [part for part in (shaped.reason or "").split("; ") if part and part != MENDED]
    return shaped.model_copy(update={"reason": "; ".join(parts) or None})


def captured(
    data: bytes, *, shown: int, limit: int = 10**9, steps: list[int] | None = None, output_type: str = "file_content"
) -> Capture:
    capture = Capture(shown=shown, limit=limit, output_type=output_type)
    for piece in pieces(data, steps=steps or [CHUNK]):
        capture.feed(piece)
    return capture


@given(data=STREAM, steps=STEPS, shown=SHOWN, output_type=TYPE, budget=SHOWN)
def test_a_captured_stream_shapes_exactly_like_the_whole_text(
    data: bytes, steps: list[int], shown: int, output_type: str, budget: int
) -> None:
    capture = captured(data, shown=shown, steps=steps, output_type=output_type)
    whole = shape(data.decode(errors="replace"), output_type=output_type, budget=min(budget, shown))
    assert without_repair_notice(capture.shape(budget=budget)) == whole


@given(data=STREAM, steps=STEPS, limit=st.integers(0, 80))
def test_everything_is_counted_even_when_dropped(data: bytes, steps: list[int], limit: int) -> None:
    capture = captured(data, shown=5, limit=limit, steps=steps)
    assert capture.bytes_fed == len(data)
    assert capture.characters == len(data.decode(errors="replace"))
    assert capture.over_limit == (len(data) > limit)


@given(data=VALID_STREAM, steps=STEPS, shown=SHOWN, limit=st.integers(0, 80), output_type=TYPE)
def test_no_cut_ever_breaks_a_character(
    data: bytes, steps: list[int], shown: int, limit: int, output_type: str
) -> None:
    shaped = captured(data, shown=shown, limit=limit, steps=steps, output_type=output_type).shape()
    assert "\ufffd" not in shaped.text


@given(data=STREAM, steps=STEPS, shown=SHOWN, limit=st.integers(0, 80), output_type=EXACT_TYPE)
def test_bytes_past_the_limit_are_counted_and_not_shown(
    data: bytes, steps: list[int], shown: int, limit: int, output_type: str
) -> None:
    capture = captured(data, shown=shown, limit=limit, steps=steps, output_type=output_type)
    shaped = capture.shape()
    if not capture.over_limit:
        return
    missing = sum(int(count) for count in re.findall(r"\[… (?:last )?(\d+) (?:of|characters)", shaped.text))
    assert shaped.truncated
    assert shaped.shown <= len(data[:limit].decode(errors="replace"))
    assert shaped.shown + missing == shaped.characters == len(data.decode(errors="replace"))
    assert len(NOTICE.sub("", shaped.text)) == shaped.shown


def test_a_stream_at_its_limit_is_whole_and_one_more_byte_is_dropped() -> None:
    capture = captured(b"abc", shown=10, limit=3)
    assert (capture.over_limit, capture.text()) == (False, "abc")
    capture.feed(b"d")
    assert capture.over_limit
    assert capture.text() == "abc[… last 1 characters dropped: over the output limit …]"


def test_a_character_across_the_limit_is_dropped_as_a_whole() -> None:
    capture = captured("a漢b".encode(), shown=10, limit=2, steps=[1])
    assert capture.text() == "a[… last 2 characters dropped: over the output limit …]"


@pytest.mark.parametrize(("data", "kept"), [("ae\u0301", "a"), ("ab\r\n", "ab"), ("ab\n\u0301", "ab"), ("abc", "ab")])
def test_marks_on_a_dropped_character_are_dropped_with_it(data: str, kept: str) -> None:
    limit = len(data[:-1].encode())
    capture = captured(data.encode(), shown=10, limit=limit)
    dropped = len(data) - len(kept)
    assert capture.text() == f"{kept}[… last {dropped} characters dropped: over the output limit …]"


def test_a_dropped_line_break_before_dropped_text_is_no_line() -> None:
    capture = captured(("a\n" * 30 + "\u0301").encode(), shown=4, limit=60)
    assert NOTICE.findall(capture.text()) == [
        "[… 55 of 61 characters omitted (lines 2–29) …]",  # noqa: RUF001
        "[… last 2 characters dropped: over the output limit …]",
    ]


def test_a_limit_of_0_drops_everything() -> None:
    assert captured(b"abc", shown=10, limit=0).text() == ("[… last 3 characters dropped: over the output limit …]")


def test_an_unfinished_sequence_at_the_end_is_one_broken_character() -> None:
    capture = captured("a漢".encode()[:-1], shown=10)
    assert (capture.text(), capture.characters) == ("a\ufffd", 2)


def test_an_unfinished_sequence_past_the_limit_is_dropped_and_counted() -> None:
    capture = captured("ab漢".encode()[:-1], shown=10, limit=1)
    assert capture.text() == "a[… last 2 characters dropped: over the output limit …]"


@pytest.mark.parametrize("shown", range(1, 5))
def test_the_kept_ends_fill_the_whole_budget(shown: int) -> None:
    texts = [name for name, form in SHAPES.items() if form.budget and name != "json_data"]
    letters = b"abcdefghijklmnopqrstuvwxyz"
    assert {
        name: captured(letters, shown=shown, steps=[1], output_type=name).shape().shown for name in texts
    } == dict.fromkeys(texts, shown)


def test_a_kept_beginning_remembers_what_follows() -> None:
    capture = captured(("abe\u0301" + "x" * 20).encode(), shown=3, steps=[1], output_type="status_message")
    assert capture.text().startswith("ab[…")


def test_reading_during_a_stream_does_not_change_it() -> None:
    capture = Capture(shown=10, limit=100, output_type="execution_result")
    for byte in "漢字".encode():
        capture.feed(bytes([byte]))
        assert capture.text().count("\ufffd") <= 1
    assert capture.text() == "漢字"


def test_an_empty_stream_is_empty() -> None:
    shaped = Capture(shown=10, limit=10).shape(budget=10)
    assert (shaped.text, shaped.characters, shaped.truncated) == ("", 0, False)


@pytest.mark.parametrize("sizes", [(-1, 0), (0, -1)])
def test_negative_sizes_are_an_error_of_the_engine(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Capture(shown=sizes[0], limit=sizes[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "chunk", [b"x" * CHUNK, b"short line\n" * 5957, "漢".encode() * 21845], ids=["x", "lines", "漢"]
)
@pytest.mark.parametrize("limit", [MEBIBYTE, 10**12], ids=["over the limit", "within the limit"])
def test_a_flood_is_captured_nearly_as_fast_as_it_is_scanned_once(chunk: bytes, limit: int) -> None:
    def best(take: Callable[[bytes], object]) -> float:
        times = []
        for _ in range(9):
            begun = time.process_time()
            for _ in range(64):
                take(chunk)
            times.append(time.process_time() - begun)
        return min(times)

    def look_through(data: bytes) -> object:
        text = data.decode("utf-8", "replace")
        return text.count("\n"), text.find("error")

    capture = Capture(shown=8_000, limit=limit)
    assert best(capture.feed) <= 8 * best(look_through)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [b"x" * CHUNK, b"x" * 7, b"\xff" * CHUNK, b"x" * 16 * MEBIBYTE])
def test_memory_stays_flat_for_any_amount(chunk: bytes) -> None:
    tracemalloc.start()
    try:
        capture = Capture(shown=60_000, limit=10**12)
        for _ in range(max(32 * MEBIBYTE // len(chunk), 1) if len(chunk) > 7 else 50_000):
            capture.feed(chunk)
        capture.shape()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 60_000 + 4 * MEBIBYTE


@given(data=STREAM, steps=STEPS, limit=st.integers(0, 80), output_type=TYPE)
def test_every_byte_up_to_the_limit_is_forwarded_unchanged(
    data: bytes, steps: list[int], limit: int, output_type: str
) -> None:
    spilled: list[bytes] = []
    capture = Capture(shown=3, limit=limit, output_type=output_type, spill=spilled.append)
    for piece in pieces(data, steps=steps):
        capture.feed(piece)
    assert b"".join(spilled) == data[:limit]


@given(data=PRINTED, steps=STEPS, shown=st.integers(0, 60), output_type=TYPE)
def test_printed_text_is_shaped_like_the_whole_in_any_pieces(
    data: bytes, steps: list[int], shown: int, output_type: str
) -> None:
    capture = captured(data, shown=shown, steps=steps, output_type=output_type)
    assert without_repair_notice(capture.shape()) == shape(
        data.decode(errors="replace"), output_type=output_type, budget=shown
    )


def test_printed_json_is_pruned_and_longer_json_shows_both_ends() -> None:
    numbers = list(range(200_000))
    shaped = captured(json.dumps(numbers).encode(), shown=500, output_type="json_data").shape()
    assert json.loads(shaped.text)[0] == 0
    longer = captured(json.dumps(numbers * 3).encode(), shown=500, output_type="json_data").shape()
    assert re.fullmatch(r"\[0, 1, 2, .*\[… \d+ of \d+ characters omitted \(line 1\) …\].* 199999\]", longer.text)


def test_one_endless_line_is_shown_from_both_ends() -> None:
    capture = captured(b"a" * MEBIBYTE + b"z" * MEBIBYTE, shown=10)
    assert capture.text() == "aaaaa[… 2097142 of 2097152 characters omitted (line 1) …]zzzzz"


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_broken_bytes_are_reported_and_replacement_characters_are_not(step: int) -> None:
    for data, is_mended in (
        (b"ab\xffcd", True),
        ("a\ufffdb".encode(), False),
        (b"x\xe2\x82", True),
        (b"\xed\xa0\x80", True),
    ):
        reason = captured(data, shown=50, steps=[step]).shape().reason
        assert (reason == MENDED) is is_mended, data


def test_a_plain_line_is_shaped_in_few_python_calls() -> None:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        capture = Capture(shown=8_000, limit=MEBIBYTE)
        capture.feed(b"hello\n")
        shaped = capture.shape()
    finally:
        sys.setprofile(None)
    assert shaped.text == "hello\n"
    assert calls < 20


@given(STREAM, st.sampled_from(sorted(SHAPES)), st.integers(0, 40))
def test_a_held_stream_is_shaped_like_one_that_is_read(stream: bytes, output_type: str, budget: int) -> None:
    held = Capture(shown=2_000, limit=MEBIBYTE, output_type=output_type)
    read = Capture(shown=2_000, limit=MEBIBYTE, output_type=output_type)
    read.feed(b"")
    read._reader = read._new_reader()
    for capture in (held, read):
        capture.feed(stream)
    assert held.shape(budget=budget) == read.shape(budget=budget)
    assert held.shape() == read.shape()
