"""A reply is read once and at a bounded price, whatever its content."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.replies import (
    LARGE_BYTES,
    MAX_PARTS,
    TooManyParts,
    Unreadable,
    _count_outside_of_strings,
    aside_when_large,
    count_parts,
    read_answer,
)
from sandbox.engine.result import CallEnd
from sandbox.engine.verdict import judge
from sandbox.outcome import Status
from sandbox.policy import Limits
from sandbox.protocol.messages import Ended, ValueReply
from sandbox.protocols import Reading
from sandbox.threads import Threads

JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet=st.sampled_from('ab,[{}]\\":')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet=st.sampled_from('a,[{\\"')), inner),
)
ENDED = Ended(
    type="ended",
    id=1,
    exit_code=0,
    signal=None,
    cpu_s=None,
    max_rss=None,
    bytes_free=None,
    inodes_free=None,
    killed_by=None,
)


def packed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def replied(value: str) -> bytes:
    return packed(b'{"kind":"value","value":%s,"warnings":[]}' % value.encode())


def parts_of(value: Any) -> int:
    """Count brackets and commas naively."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return max(len(value), 1) + sum(parts_of(each) for each in inner)


@pytest.mark.slow
@given(value=JSON)
def test_only_separators_outside_strings_count(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, separators=(",", ":"), ensure_ascii=False)):
        assert _count_outside_of_strings(text.encode()) == parts_of(value)


@given(text=st.binary() | st.text(alphabet=st.sampled_from('",[{\\a')).map(str.encode))
def test_any_bytes_are_counted(text: bytes) -> None:
    assert 0 <= _count_outside_of_strings(text) <= len(text)


@pytest.mark.parametrize("part", ["[],", "{},", "1,", '"",', '"\\\\",'])
def test_a_value_of_too_many_parts_is_not_parsed(part: str) -> None:
    answer = read_answer(replied(f"[{part * MAX_PARTS}0]"))
    assert isinstance(answer, TooManyParts)
    assert answer.parts > MAX_PARTS


@pytest.mark.parametrize("text", [",", "[", "{", '\\"', ",\\\\"])
def test_a_text_full_of_commas_and_brackets_is_one_part(text: str) -> None:
    answer = read_answer(replied(f'["{text * (MAX_PARTS + 1)}"]'))
    assert isinstance(answer, ValueReply)
    assert count_parts(replied(f'["{text * (MAX_PARTS + 1)}"]')) < 10


def test_too_many_parts_are_a_value_limit_with_both_numbers() -> None:
    verdict = judge(CallEnd(ENDED, replied(f"[{'1,' * MAX_PARTS}1]"), Limits(), Reading(), 1.0))
    assert (verdict.status, verdict.limit_name) == (Status.LIMIT, "value")
    assert verdict.evidence == {"limit": MAX_PARTS, "measured": MAX_PARTS + 5, "unit": "parts"}
    assert verdict.error is not None
    assert f"{MAX_PARTS + 5} parts" in verdict.error.message


def test_a_reply_is_not_read_twice() -> None:
    answer = read_answer(replied("1"))
    verdict = judge(CallEnd(ENDED, replied("2"), Limits(), Reading(), 1.0, answer=answer))
    assert (verdict.status, verdict.value) == (Status.OK, 1)


@pytest.mark.parametrize("text", [b"", b"{", b"[1, 2", b'{"kind":"value","value":NaN,"warnings":[]}', b"\xff"])
def test_an_invalid_reply_is_unreadable(text: bytes) -> None:
    assert isinstance(read_answer(packed(text)), Unreadable)


async def _thread_of_work(size: int) -> int:
    return await aside_when_large(threading.get_ident, size=size, threads=Threads())


def test_small_work_stays_and_large_work_moves_to_a_thread() -> None:
    assert asyncio.run(_thread_of_work(LARGE_BYTES)) == threading.get_ident()
    assert asyncio.run(_thread_of_work(LARGE_BYTES + 1)) != threading.get_ident()
