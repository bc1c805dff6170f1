"""Budgets: who says how much is shown, and that it only goes down."""

from __future__ import annotations

import pytest

from sandbox.outcome import Shaped
from sandbox.outputs.budgets import DEFAULT_BUDGETS, Asked, Budgets, Declared, Room
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.shaping import shape
from sandbox.outputs.tokens import shape_within, within_tokens
from sandbox.policy import Output
from sandbox.spec import AskedOutput

POLICY = Output(budgets=(("json_data", 500), ("image", 9), ("table", 0)))


def printed(budget: int) -> Shaped:
    return shape("one two three four five\n" * 400, output_type="execution_result", budget=budget)


def in_words(text: str) -> int:
    return len(text.split())


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
    assert Budgets(declared, policy, Asked(return_char_limit=asked)).value({"a": 1}) == room


def test_a_call_lowers_what_is_shown_of_the_value_and_not_of_what_is_printed() -> None:
    asked = Asked(return_char_limit=5)
    assert Budgets(Declared(stdout="status_message"), Output(), asked).stdout == Room("status_message", 2_000)


def test_a_call_may_say_of_each_output_what_it_is_and_how_much_of_it_is_shown() -> None:
    asked = Asked(
        outputs={
            "stdout": AskedOutput(type="json_data", characters=9_000),
            "stderr": AskedOutput(characters=0),
            "value": AskedOutput(characters=70),
        },
        return_char_limit=80,
    )
    budgets = Budgets(Declared(stdout="status_message"), POLICY, asked)
    assert (budgets.stdout, budgets.stderr) == (Room("json_data", 500), Room("error_message", 0))
    assert budgets.value("text") == Room("execution_result", 70)


@pytest.mark.parametrize(
    ("declared", "policy", "asked", "room"),
    [
        (Declared(), Output(tokens=(("json_data", 100),)), Asked(), Room("json_data", 800, 100)),
        (Declared(), Output(tokens=(("json_data", 100),)), Asked(tokens=30), Room("json_data", 800, 30)),
        (Declared(), Output(tokens=(("json_data", 100),)), Asked(tokens=300), Room("json_data", 800, 100)),
        (Declared(return_token_limit=5_000), Output(), Asked(), Room("json_data", 40_000, 5_000)),
        (Declared(return_token_limit=5_000), POLICY, Asked(), Room("json_data", 500, 5_000)),
        (Declared(return_token_limit=5_000), Output(shown=700), Asked(), Room("json_data", 700, 5_000)),
        (Declared(), Output(), Asked(tokens=0), Room("json_data", 8_000, 0)),
        (Declared(), Output(), Asked(outputs={"value": AskedOutput(tokens=7)}, tokens=9), Room("json_data", 8_000, 7)),
        (Declared(value="image", return_token_limit=50), Output(), Asked(), Room("image", 0, 50)),
    ],
)
def test_tokens_that_a_tool_or_a_policy_names_stand_for_the_types_characters(
    declared: Declared, policy: Output, asked: Asked, room: Room
) -> None:
    assert Budgets(declared, policy, asked, in_words).value({"a": 1}) == room


def test_without_a_tokenizer_tokens_are_nothing_that_a_tool_or_a_policy_could_limit() -> None:
    policy = Output(tokens=(("json_data", 100),))
    assert Budgets(Declared(return_token_limit=5), policy).value({"a": 1}) == Room("json_data", 8_000)


@pytest.mark.parametrize("output_type", ["execution_result", "knowledge_content", "status_message", "error_message"])
def test_a_budget_may_be_of_tokens(output_type: str) -> None:
    text = "one two three four five\n" * 400

    def shaped(budget: int) -> Shaped:
        return shape(text, output_type=output_type, budget=budget)

    fitted = within_tokens(shaped, budget=100, tokens=in_words)
    assert 90 <= in_words(strip_notices(fitted.text)) <= 100
    assert within_tokens(shaped, budget=2000, tokens=in_words).text == text
    assert within_tokens(shaped, budget=0, tokens=in_words).shown == 0


def test_a_tokenizer_may_give_the_tokens_themselves_and_the_reason_says_what_was_over() -> None:
    fitted = shape_within(printed, characters=8_000, tokens=100, tokenizer=str.split)
    assert 90 <= in_words(strip_notices(fitted.text)) <= 100
    assert (fitted.truncated, fitted.reason) == (True, "over the budget of 100 tokens")
    assert shape_within(printed, characters=50, tokens=100, tokenizer=str.split).reason is not None
    assert shape_within(printed, characters=50, tokens=100, tokenizer=str.split).shown <= 50


def test_a_tokenizer_that_fails_leaves_a_budget_of_as_many_characters() -> None:
    def choking(text: str) -> int:
        raise ValueError("disallowed special token")

    fitted = shape_within(printed, characters=8_000, tokens=100, tokenizer=choking)
    assert 0 < fitted.shown <= 100
    assert fitted.reason is not None
    assert "disallowed special token" in fitted.reason


def test_a_tokenizer_whose_counts_make_no_sense_never_shows_more_than_asked_for() -> None:
    def odd(text: str) -> int:
        return len(text) % 7 * 10

    fitted = within_tokens(
        lambda budget: shape("abc\n" * 999, output_type="execution_result", budget=budget), budget=9, tokens=odd
    )
    assert odd(strip_notices(fitted.text)) <= 9
