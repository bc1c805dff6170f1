"""How many children are worth having ahead, as calls come, and as children are lost."""

from __future__ import annotations

from typing import Final

from zygote.prefork import IdleChildren

MOST_LOST: Final = 3


def test_each_call_that_found_none_has_one_more_made_up_to_what_is_allowed() -> None:
    spares = IdleChildren(limit=2)
    assert spares.needs_more
    for wanted in (2, 2):
        assert spares.take() is None
        assert spares.wanted == wanted


def test_none_is_made_any_more_where_a_few_could_not_be() -> None:
    spares, were_too_few = IdleChildren(limit=4), []
    for happens in (*[spares.note_failure] * MOST_LOST, spares.miss):
        happens()
        were_too_few.append(spares.needs_more)
    assert were_too_few == [True, True, False, False]


def test_a_vacant_one_is_wanted_once_a_call_found_none_ahead_and_only_where_it_may_be() -> None:
    spares, others = IdleChildren(limit=1, half_started=True), IdleChildren(limit=1)
    assert not spares.needs_half_started
    spares.miss()
    others.miss()
    assert (spares.needs_half_started, others.needs_half_started) == (True, False)
