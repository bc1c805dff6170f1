"""Pruned JSON counts what is missing, keeps small values whole, and can be pruned again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.outcome import Json
from sandbox.outputs.shapes.json_data import prune
from sandbox.outputs.shaping import shape, shape_value
from tests.processor_time import within

MEBIBYTE = 1 << 20


def shaped_json(value: Json, *, budget: int = 8000) -> Any:
    return json.loads(shape_value(value, budget=budget).text)


def test_a_long_string_keeps_its_beginning_and_counts_the_rest() -> None:
    shown = shaped_json({"id": 7, "log": "x" * 9000}, budget=200)
    kept, said = shown["log"].split("… ")
    assert (shown["id"], said) == (7, f"[{9000 - len(kept)} more characters]")
    assert len(kept) > 100


def test_a_long_array_keeps_its_ends_and_counts_the_rest() -> None:
    *shown, notice = shaped_json(list(range(1000)), budget=200)
    at = next(place for place, each in enumerate(shown) if isinstance(each, str))
    assert shown[:at] == list(range(at))
    assert shown[at + 1 :] == list(range(1000 - len(shown) + at + 1, 1000))
    assert shown[at] == f"… {1000 - len(shown) + 1} more items"
    assert notice.startswith("[… ")


def test_a_large_object_keeps_its_first_keys_and_counts_the_rest() -> None:
    shown = shaped_json({f"key{number}": number for number in range(1000)}, budget=200)
    kept = len(shown) - 2
    assert list(shown.items())[:kept] == [(f"key{number}", number) for number in range(kept)]
    assert shown["…"] == f"{1000 - kept} more keys"
    assert shown["……"].startswith("[… ")


def test_a_deep_branch_is_a_count() -> None:
    value: Json = {"leaf": ["a", "b", "c"] * 99}
    for _ in range(100):
        value = {"next": value}
    text = json.dumps(shaped_json(value, budget=600), ensure_ascii=False)
    assert re.search(r'"next": "\{… 1 key\}"\}{9}', text)


def test_small_values_next_to_a_huge_one_stay_whole() -> None:
    shown = shaped_json({"status": "done", "blob": "y" * 100_000, "rows": [1, 2, 3], "at": 2.5})
    assert (shown["status"], shown["rows"], shown["at"]) == ("done", [1, 2, 3], 2.5)


def test_the_first_and_last_of_many_rows_are_shown_in_full() -> None:
    rows: list[Json] = [{"id": number, "name": f"user {number}", "tags": ["a", "b"]} for number in range(2000)]
    *shown, _ = shaped_json(rows)
    assert [shown[0], shown[1], shown[-2], shown[-1]] == [rows[0], rows[1], rows[-2], rows[-1]]
    assert [each for each in shown if isinstance(each, str)] == [f"… {2000 - len(shown) + 1} more items"]


def test_numbers_stay_exact_and_only_huge_ones_become_counts() -> None:
    *shown, _ = shaped_json([1.2345678901234567, 12345678901234567890, int("9" * 4000)], budget=250)
    assert shown == [1.2345678901234567, 12345678901234567890, "… 4000 digits"]


def test_most_of_the_budget_is_used() -> None:
    values: dict[str, Json] = {
        "numbers": list(range(10_000)),
        "rows": [{"id": number, "text": "some words " * 9} for number in range(1000)],
        "nested": {"users": [{"id": number, "posts": ["word " * 60] * 20} for number in range(50)], "total": 50},
        "texts": ["word " * 200] * 300,
    }
    for name, value in values.items():
        assert 0.8 * 8000 <= shape_value(value, budget=8000).shown <= 8000, name


def test_json_text_is_pruned_and_other_text_shows_both_ends() -> None:
    document = json.dumps({"rows": list(range(1000))})
    assert json.loads(shape(document, output_type="json_data", budget=300).text)["rows"][0] == 0
    assert shape("{" + "x" * 998 + "}", output_type="json_data", budget=100).text == (
        "{" + "x" * 49 + "[… 900 of 1000 characters omitted (line 1) …]" + "x" * 49 + "}"
    )


def test_a_value_that_looks_pruned_stays_json() -> None:
    value: Json = {"…": "5 more keys", "……": "[… 1 of 9 characters omitted …]", "a": "x… [9 more characters]" * 99}
    shown = shaped_json(value, budget=300)
    assert shown["a"].startswith("x…")


@given(number=st.integers(200, 900), rooms=st.tuples(st.integers(600, 1500), st.integers(150, 500)))
def test_pruning_again_adds_up_the_counts(number: int, rooms: tuple[int, int]) -> None:
    items: Json = list(range(1000, 1000 + number))
    members: Json = {str(key): 1 for key in range(1000, 1000 + number)}
    text: Json = "x" * number * 9
    for room in rooms:
        items, members, text = (prune(each, room=room) for each in (items, members, text))
    assert isinstance(items, list)
    assert isinstance(members, dict)
    assert isinstance(text, str)
    (gone,) = [int(each.split()[1]) for each in items if isinstance(each, str)]
    assert gone + len(items) - 1 == number
    assert int(str(members["…"]).split()[0]) + len(members) - 1 == number
    kept, _, said = text.partition("… [")
    assert len(kept) + int(said.split()[0]) == number * 9


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: {"rows": [{"id": number, "text": "some words here " * 4} for number in range(120_000)]},
        lambda: list(range(1_400_000)),
        lambda: {"text": "y" * 10 * MEBIBYTE},
        lambda: {str(number): number for number in range(700_000)},
        lambda: [[[number]] for number in range(900_000)],
    ],
    ids=["rows", "numbers", "text", "keys", "nested"],
)
def test_ten_mebibytes_are_pruned_in_a_second(make: Callable[[], Json]) -> None:
    value = make()
    with within(1):
        shaped = shape_value(value, budget=8000)
    assert shaped.characters > 9 * MEBIBYTE
