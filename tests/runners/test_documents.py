"""JSON without its public module says and means the same."""

from __future__ import annotations

import json
import math

import pytest

from box import fast_json

DOCUMENTS = [
    None,
    {"a": [1, 2.5, -1e300, True, {"b": 'ü\ud800\u2028"\\'}], "": {}},
    {1: 2, None: 3, 1.5: 4, False: 5},
    [(1, 2), []],
    "text",
    10**400,
]


@pytest.mark.parametrize("content", DOCUMENTS, ids=repr)
def test_what_is_written_is_what_the_public_module_writes(content: object) -> None:
    text = json.dumps(content, separators=(",", ":"))
    assert fast_json.write(content) == text
    assert fast_json.read(text) == json.loads(text)


@pytest.mark.parametrize("text", ["", " ", "{", "[1]x", '{"a":}', '"\n"', "nul", '"\\u12"'])
def test_what_is_no_document_is_an_error_of_its_value(text: str) -> None:
    with pytest.raises(ValueError, match="line 1 column"):
        fast_json.read(text)


def test_blanks_around_a_document_are_no_part_of_it() -> None:
    assert fast_json.read(" [1]\n") == [1]


def test_what_has_no_form_in_json_is_refused_or_left_to_the_caller() -> None:
    around: list[object] = []
    around.append(around)
    with pytest.raises(ValueError, match="Circular"):
        fast_json.write(around)
    with pytest.raises(TypeError):
        fast_json.write(object())
    assert fast_json.write({"a": 1j}, default=str) == '{"a":"1j"}'


def test_numbers_that_json_has_not_are_written_unless_they_may_not_be() -> None:
    assert fast_json.write([math.inf, -math.inf]) == "[Infinity,-Infinity]"
    assert fast_json.read("[-Infinity]") == [-math.inf]
    with pytest.raises(ValueError, match="JSON compliant"):
        fast_json.write(math.nan, allow_nan=False)


def test_where_the_parts_in_c_are_missing_the_public_module_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_json, "_parts", None)
    monkeypatch.setattr(fast_json, "_scan", None)
    assert fast_json.write({"a": [1, "ü"]}) == '{"a":[1,"\\u00fc"]}'
    assert fast_json.read('{"a": null}') == {"a": None}
