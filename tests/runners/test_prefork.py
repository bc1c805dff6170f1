"""The number of idle children follows calls and losses."""

from __future__ import annotations

from typing import Final

from zygote.prefork import IdleChildren

MOST_LOST: Final = 3


def test_each_miss_adds_a_child_up_to_the_limit() -> None:
    spares = IdleChildren(limit=2)
    assert spares.needs_more
    for wanted in (2, 2):
        assert spares.take() is None
        assert spares.wanted == wanted


def test_no_child_is_forked_after_a_few_failures() -> None:
    spares, were_too_few = IdleChildren(limit=4), []
    for happens in (*[spares.note_failure] * MOST_LOST, spares.miss):
        happens()
        were_too_few.append(spares.needs_more)
    assert were_too_few == [True, True, False, False]


def test_a_half_started_child_is_wanted_after_a_miss_if_allowed() -> None:
    spares, others = IdleChildren(limit=1, half_started=True), IdleChildren(limit=1)
    assert not spares.needs_half_started
    spares.miss()
    others.miss()
    assert (spares.needs_half_started, others.needs_half_started) == (True, False)
