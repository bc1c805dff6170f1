"""Literal values of a source are read without executing anything."""

from __future__ import annotations

import ast
from typing import Any, Final

import pytest

from sandbox.tools.syntax.literals import NotLiteral, literal
from sandbox.tools.syntax.parsing import parse_expression

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
        ("-(2**31)", -(2**31)),
        ("2**63 - 1", 2**63 - 1),
        ("10 * 1024 * 1024 + 1", 10 * 1024 * 1024 + 1),
        ("1 << 4", 16),
        ("1 / 4 + 7 // 2", 3.25),
    ],
)
def test_a_written_out_value_is_a_literal(text: str, value: object) -> None:
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
            "1 + 'a'",
            "'a' * 9",
            "-'a'",
            "-True",
            "[x]",
            "{x: 1}",
            "{[]: 1}",
            "{(): 1}",
        ),
        *("{[1]}", "lambda: 1", "1 if 2 else 3", "[each for each in ()]", "1 + True", "not 1", "7 % 2", "[1] + [2]"),
        *(
            "2 ** 65",
            "1 << 65",
            "1 << -1",
            "2.5 << 1",
            "1 / 0",
            "0 ** -1",
            "(-8) ** 0.5",
            "9e99 * 9e99",
            "2**64 * 2 - 1",
        ),
        *("2.0**64**9", "9**9**9**9"),
    ],
)
def test_an_expression_to_execute_is_no_literal(text: str) -> None:
    with pytest.raises(NotLiteral):
        _literal(text)


def test_the_innermost_part_that_is_no_literal_is_named() -> None:
    with pytest.raises(NotLiteral) as refusal:
        _literal("[1, {'k': (2, call())}]")
    assert isinstance(refusal.value.node, ast.Call)


def test_names_that_hold_names_end_at_a_number_of_values() -> None:
    constants = {f"A{number}": f"[A{number - 1}, A{number - 1}]" for number in range(1, 25)} | {"A0": "[1]"}

    def constant(name: str) -> ast.expr | None:
        return parse_expression(constants[name])

    node = parse_expression("A3")
    assert node is not None
    assert literal(node, constant) == [[[[1], [1]], [[1], [1]]], [[[1], [1]], [[1], [1]]]]
    many = parse_expression("A24")
    assert many is not None
    with pytest.raises(NotLiteral):
        literal(many, constant)
