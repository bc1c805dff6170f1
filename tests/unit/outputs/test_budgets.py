"""Budgets bound how much is shown, and each level can only lower them."""

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


def test_the_default_budget_is_that_of_the_type() -> None:
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
def test_a_tool_overrides_its_type_and_others_only_lower(
    declared: Declared, policy: Output, asked: int | None, room: Room
) -> None:
    assert Budgets(declared, policy, Asked(return_char_limit=asked)).value({"a": 1}) == room


def test_a_call_lowers_the_budget_of_the_value_only() -> None:
    asked = Asked(return_char_limit=5)
    assert Budgets(Declared(stdout="status_message"), Output(), asked).stdout == Room("status_message", 2_000)


def test_a_call_may_set_type_and_budget_of_each_output() -> None:
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
def test_tokens_of_a_tool_or_policy_replace_characters(
    declared: Declared, policy: Output, asked: Asked, room: Room
) -> None:
    assert Budgets(declared, policy, asked, in_words).value({"a": 1}) == room


def test_without_a_tokenizer_token_budgets_do_not_apply() -> None:
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


def test_a_tokenizer_may_return_tokens_and_the_reason_names_the_excess() -> None:
    fitted = shape_within(printed, characters=8_000, tokens=100, tokenizer=str.split)
    assert 90 <= in_words(strip_notices(fitted.text)) <= 100
    assert (fitted.truncated, fitted.reason) == (True, "over the budget of 100 tokens")
    assert shape_within(printed, characters=50, tokens=100, tokenizer=str.split).reason is not None
    assert shape_within(printed, characters=50, tokens=100, tokenizer=str.split).shown <= 50


def test_a_failing_tokenizer_leaves_a_budget_of_characters() -> None:
    def choking(text: str) -> int:
        raise ValueError("disallowed special token")

    fitted = shape_within(printed, characters=8_000, tokens=100, tokenizer=choking)
    assert 0 < fitted.shown <= 100
    assert fitted.reason is not None
    assert "disallowed special token" in fitted.reason


def test_a_senseless_token_count_never_shows_more_than_requested() -> None:
    def odd(text: str) -> int:
        return len(text) % 7 * 10

    fitted = within_tokens(
        lambda budget: shape("abc\n" * 999, output_type="execution_result", budget=budget), budget=9, tokens=odd
    )
    assert odd(strip_notices(fitted.text)) <= 9
