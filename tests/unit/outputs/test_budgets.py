"""Budgets: who says how much is shown, and that it only goes down."""

from __future__ import annotations

import pytest

from sandbox.outcome import Shaped
from sandbox.outputs.budgets import DEFAULT_BUDGETS, Budgets, Declared, Room
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.shaping import shape
from sandbox.outputs.tokens import within_tokens
from sandbox.policy import Output

POLICY = Output(budgets=(("json_data", 500), ("image", 9), ("table", 0)))


def test_without_a_word_from_anybody_it_is_the_types_own() -> None:
    assert DEFAULT_BUDGETS.stdout == Room("execution_result", 8_000)
    assert DEFAULT_BUDGETS.stderr == Room("error_message", 8_000)
    assert DEFAULT_BUDGETS.value({}) == Room("json_data", 8_000)
    assert DEFAULT_BUDGETS.value("text") == Room("execution_result", 8_000)


@pytest.mark.parametrize(
    ("declared", "policy", "asked", "room"),
    [
        (Declared(value="file_content"), Output(), None, Room("file_content", 60_000)),
        (Declared(value="of mine"), Output(), None, Room("of mine", 2_000)),
        (Declared(return_char_limit=50_000), Output(), None, Room("json_data", 50_000)),
        (Declared(return_char_limit=9_000_000), Output(), None, Room("json_data", 1_000_000)),
        (Declared(return_char_limit=9), Output(), None, Room("json_data", 9)),
        (Declared(return_char_limit=50_000), POLICY, None, Room("json_data", 500)),
        (Declared(return_char_limit=50_000), Output(shown=700), None, Room("json_data", 700)),
        (Declared(), POLICY, None, Room("json_data", 500)),
        (Declared(), POLICY, 100, Room("json_data", 100)),
        (Declared(), POLICY, 501, Room("json_data", 500)),
        (Declared(), Output(), 50_000, Room("json_data", 8_000)),
        (Declared(return_char_limit=50_000), Output(), 20_000, Room("json_data", 20_000)),
        (Declared(value="table"), POLICY, 100, Room("table", 0)),
        (Declared(value="image", return_char_limit=50), Output(), None, Room("image", 0)),
    ],
)
def test_a_tool_overrides_its_type_and_a_policy_and_a_call_only_lower(
    declared: Declared, policy: Output, asked: int | None, room: Room
) -> None:
    assert Budgets(declared, policy, asked).value({"a": 1}) == room


def test_a_call_lowers_what_is_shown_of_the_value_and_not_of_what_is_printed() -> None:
    assert Budgets(Declared(stdout="status_message"), Output(), 5).stdout == Room("status_message", 2_000)


def in_words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize("output_type", ["execution_result", "knowledge_content", "status_message", "error_message"])
def test_a_budget_may_be_of_tokens(output_type: str) -> None:
    text = "one two three four five\n" * 400

    def shaped(budget: int) -> Shaped:
        return shape(text, output_type=output_type, budget=budget)

    fitted = within_tokens(shaped, budget=100, tokens=in_words)
    assert 90 <= in_words(strip_notices(fitted.text)) <= 100
    assert within_tokens(shaped, budget=2000, tokens=in_words).text == text
    assert within_tokens(shaped, budget=0, tokens=in_words).shown == 0


def test_a_tokenizer_whose_counts_make_no_sense_never_shows_more_than_asked_for() -> None:
    def odd(text: str) -> int:
        return len(text) % 7 * 10

    fitted = within_tokens(
        lambda budget: shape("abc\n" * 999, output_type="execution_result", budget=budget), budget=9, tokens=odd
    )
    assert odd(strip_notices(fitted.text)) <= 9
