"""Budgets bound how much is shown, and each level can only lower them."""

from __future__ import annotations

import pytest

from sandbox.outcome import Shaped
from sandbox.outputs.budgets import DEFAULT_BUDGETS, Budgets, DeclaredOutputs, OutputBudget, RequestedOutputs
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
    assert DEFAULT_BUDGETS.stdout == OutputBudget("execution_result", 8_000)
    assert DEFAULT_BUDGETS.stderr == OutputBudget("error_message", 8_000)
    assert DEFAULT_BUDGETS.value({}) == OutputBudget("json_data", 8_000)
    assert DEFAULT_BUDGETS.value("text") == OutputBudget("execution_result", 8_000)


@pytest.mark.parametrize(
    ("declared", "policy", "asked", "room"),
    [
        (DeclaredOutputs(value="file_content"), Output(), None, OutputBudget("file_content", 60_000)),
        (DeclaredOutputs(value="of mine"), Output(), None, OutputBudget("of mine", 2_000)),
        (DeclaredOutputs(return_char_limit=50_000), Output(), None, OutputBudget("json_data", 50_000)),
        (DeclaredOutputs(return_char_limit=9_000_000), Output(), None, OutputBudget("json_data", 1_000_000)),
        (DeclaredOutputs(return_char_limit=9), Output(), None, OutputBudget("json_data", 9)),
        (DeclaredOutputs(return_char_limit=50_000), POLICY, None, OutputBudget("json_data", 500)),
        (DeclaredOutputs(return_char_limit=50_000), Output(shown=700), None, OutputBudget("json_data", 700)),
        (DeclaredOutputs(), POLICY, None, OutputBudget("json_data", 500)),
        (DeclaredOutputs(), POLICY, 100, OutputBudget("json_data", 100)),
        (DeclaredOutputs(), POLICY, 501, OutputBudget("json_data", 500)),
        (DeclaredOutputs(), Output(), 50_000, OutputBudget("json_data", 8_000)),
        (DeclaredOutputs(return_char_limit=50_000), Output(), 20_000, OutputBudget("json_data", 20_000)),
        (DeclaredOutputs(value="table"), POLICY, 100, OutputBudget("table", 0)),
        (DeclaredOutputs(value="image", return_char_limit=50), Output(), None, OutputBudget("image", 0)),
    ],
)
def test_a_tool_overrides_its_type_and_others_only_lower(
    declared: DeclaredOutputs, policy: Output, asked: int | None, room: OutputBudget
) -> None:
    assert Budgets(declared, policy, RequestedOutputs(return_char_limit=asked)).value({"a": 1}) == room


def test_a_call_lowers_the_budget_of_the_value_only() -> None:
    asked = RequestedOutputs(return_char_limit=5)
    assert Budgets(DeclaredOutputs(stdout="status_message"), Output(), asked).stdout == OutputBudget(
        "status_message", 2_000
    )


def test_a_call_may_set_type_and_budget_of_each_output() -> None:
    asked = RequestedOutputs(
        outputs={
            "stdout": AskedOutput(type="json_data", characters=9_000),
            "stderr": AskedOutput(characters=0),
            "value": AskedOutput(characters=70),
        },
        return_char_limit=80,
    )
    budgets = Budgets(DeclaredOutputs(stdout="status_message"), POLICY, asked)
    assert (budgets.stdout, budgets.stderr) == (OutputBudget("json_data", 500), OutputBudget("error_message", 0))
    assert budgets.value("text") == OutputBudget("execution_result", 70)


@pytest.mark.parametrize(
    ("declared", "policy", "asked", "room"),
    [
        (
            DeclaredOutputs(),
            Output(tokens=(("json_data", 100),)),
            RequestedOutputs(),
            OutputBudget("json_data", 800, 100),
        ),
        (
            DeclaredOutputs(),
            Output(tokens=(("json_data", 100),)),
            RequestedOutputs(tokens=30),
            OutputBudget("json_data", 800, 30),
        ),
        (
            DeclaredOutputs(),
            Output(tokens=(("json_data", 100),)),
            RequestedOutputs(tokens=300),
            OutputBudget("json_data", 800, 100),
        ),
        (
            DeclaredOutputs(return_token_limit=5_000),
            Output(),
            RequestedOutputs(),
            OutputBudget("json_data", 40_000, 5_000),
        ),
        (DeclaredOutputs(return_token_limit=5_000), POLICY, RequestedOutputs(), OutputBudget("json_data", 500, 5_000)),
        (
            DeclaredOutputs(return_token_limit=5_000),
            Output(shown=700),
            RequestedOutputs(),
            OutputBudget("json_data", 700, 5_000),
        ),
        (DeclaredOutputs(), Output(), RequestedOutputs(tokens=0), OutputBudget("json_data", 8_000, 0)),
        (
            DeclaredOutputs(),
            Output(),
            RequestedOutputs(outputs={"value": AskedOutput(tokens=7)}, tokens=9),
            OutputBudget("json_data", 8_000, 7),
        ),
        (
            DeclaredOutputs(value="image", return_token_limit=50),
            Output(),
            RequestedOutputs(),
            OutputBudget("image", 0, 50),
        ),
    ],
)
def test_tokens_of_a_tool_or_policy_replace_characters(
    declared: DeclaredOutputs, policy: Output, asked: RequestedOutputs, room: OutputBudget
) -> None:
    assert Budgets(declared, policy, asked, in_words).value({"a": 1}) == room


def test_without_a_tokenizer_token_budgets_do_not_apply() -> None:
    policy = Output(tokens=(("json_data", 100),))
    assert Budgets(DeclaredOutputs(return_token_limit=5), policy).value({"a": 1}) == OutputBudget("json_data", 8_000)


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
