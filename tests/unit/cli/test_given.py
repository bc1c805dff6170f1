"""Inputs of a call are read from the command line without guessing; odd ones are refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cli.options import read_arguments, read_limits, read_pairs
from sandbox.errors import SpecError


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert read_pairs(["a=1=2", "b=", "c= x "], option="-a") == {"a": "1=2", "b": "", "c": " x "}


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_a_word_without_an_equals_sign_is_refused(pair: str) -> None:
    with pytest.raises(SpecError, match="is not NAME=VALUE"):
        read_pairs([pair], option="-a")


@pytest.mark.parametrize(
    ("option", "form", "example"),
    [
        ("-a", "NAME=VALUE", "city=Oslo"),
        ("--limit", "NAME=VALUE", "memory=64MiB"),
        ("--file", "NAME=PATH", "data/cities.csv=./cities.csv"),
        ("--output", "NAME.WHAT=VALUE", "stdout.characters=500"),
    ],
)
def test_an_option_shows_its_form_in_help_and_errors(option: str, form: str, example: str) -> None:
    with pytest.raises(SpecError, match=f"{option} 'a' is not {form}") as refused:
        read_pairs(["a"], option=option)
    assert refused.value.remedy == f"write it like {option} {example}"


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(SpecError, match="'a' twice"):
        read_pairs(["a=1", "a=1"], option="-a")
    with pytest.raises(SpecError, match="by -a and by --args"):
        read_arguments('{"a": 1}', ["a=1"])
    with pytest.raises(SpecError, match="'a' is given twice"):
        read_arguments('{"b": {"a": 1, "a": 1}}', [])


def test_an_integer_of_very_many_digits_is_refused_with_a_remedy() -> None:
    with pytest.raises(SpecError, match="beyond 64 bits; hand it over as a string") as refused:
        read_arguments(f'{{"a": -{"9" * 10_000}}}', [])
    assert "set_int_max_str_digits" not in str(refused.value)
    assert len(refused.value.message) < 200
    assert read_arguments(f'{{"a": {10**30}}}', []) == {"a": 10**30}


def test_both_ways_to_give_arguments_combine() -> None:
    assert read_arguments('{"a": [1.5, null]}', ["b=2"]) == {"a": [1.5, None], "b": "2"}
    assert read_arguments(None, []) == {}


@settings(max_examples=25)
@given(st.text(max_size=50))
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"--args|the file"):
        read_arguments(f"[{text}", [])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f'{{"a": {"9" * 5_000}}}', "[1]", "nul", '"x"', ""])
def test_json_that_python_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        read_arguments(text, [])


def test_a_file_may_hold_the_arguments(tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('\ufeff{"a": "é"}', encoding="utf-8")
    assert read_arguments(f"@{file}", []) == {"a": "é"}
    for path in (tmp_path, tmp_path / "none", "\0", ""):
        with pytest.raises(SpecError, match="the file of --args"):
            read_arguments(f"@{path}", [])


def test_the_time_limit_has_two_names_and_one_value() -> None:
    assert read_limits("500ms", ["memory=64MiB"]) == {"memory": "64MiB", "wall": "500ms"}
    with pytest.raises(SpecError, match="the same limit"):
        read_limits("1", ["wall=1"])
