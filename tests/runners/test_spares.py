"""How many children are worth having ahead, as calls come, and as children are lost."""

from __future__ import annotations

from typing import Final

from zygote.prefork import Spares

MOST_LOST: Final = 3


def test_each_call_that_found_none_has_one_more_made_up_to_what_is_allowed() -> None:
    spares = Spares(most=2)
    assert spares.are_too_few
    for wanted in (2, 2):
        assert spares.take() is None
        assert spares.wanted == wanted


def test_none_is_made_any_more_where_a_few_could_not_be() -> None:
    spares, were_too_few = Spares(most=4), []
    for happens in (*[spares.fail] * MOST_LOST, spares.miss):
        happens()
        were_too_few.append(spares.are_too_few)
    assert were_too_few == [True, True, False, False]


def test_a_vacant_one_is_wanted_once_a_call_found_none_ahead_and_only_where_it_may_be() -> None:
    spares, others = Spares(most=1, may_be_vacant=True), Spares(most=1)
    assert not spares.lack_a_vacant_one
    spares.miss()
    others.miss()
    assert (spares.lack_a_vacant_one, others.lack_a_vacant_one) == (True, False)
