"""Values that stand in a source as they are, and nothing that would have to be executed."""

from __future__ import annotations

import ast
from typing import Any, Final

import pytest

from sandbox.tools.literals import NotLiteral, literal
from sandbox.tools.parsing import parse_expression

CONSTANTS: Final = {"LIMIT": "5", "TEXT": "'a' + 'b'", "NESTED": "[LIMIT, {'t': TEXT}]", "LOOP": "[LOOP]", "a.b": "7"}


def _constant(name: str) -> ast.expr | None:
    return parse_expression(CONSTANTS[name]) if name in CONSTANTS else None


def _literal(text: str) -> Any:
    node = parse_expression(text)
    assert node is not None
    return literal(node, _constant)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-2.5", -2.5),
        ("+3", 3),
        ("'a' 'b'", "ab"),
        ("b'x'", b"x"),
        ("None", None),
        ("[1, (2, 'x'), {3}]", [1, (2, "x"), {3}]),
        ("{'a': 1, **{'b': 2}}", {"a": 1, "b": 2}),
        ("LIMIT", 5),
        ("NESTED", [5, {"t": "ab"}]),
        ("a.b", 7),
        ("60 * LIMIT", 300),
    ],
)
def test_what_is_written_out_is_a_literal(text: str, value: object) -> None:
    assert _literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(
            "f()",
            "x",
            "a.c",
            "LOOP",
            "f'{1}'",
            "1 + 1",
            "'a' * 9",
            "-'a'",
            "-True",
            "[x]",
            "{x: 1}",
            "{[]: 1}",
            "{(): 1}",
        ),
        *("{[1]}", "lambda: 1", "1 if 2 else 3", "[each for each in ()]", "10 ** 9", "9e12 * 9e12", "not 1"),
    ],
)
def test_what_would_have_to_be_executed_is_none(text: str) -> None:
    with pytest.raises(NotLiteral):
        _literal(text)


def test_the_innermost_part_that_is_no_literal_is_told() -> None:
    with pytest.raises(NotLiteral) as refusal:
        _literal("[1, {'k': (2, call())}]")
    assert isinstance(refusal.value.node, ast.Call)
