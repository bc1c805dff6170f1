"""JSON without the public module reads and writes the same text."""

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
def test_written_text_equals_that_of_the_public_module(content: object) -> None:
    text = json.dumps(content, separators=(",", ":"))
    assert fast_json.write(content) == text
    assert fast_json.read(text) == json.loads(text)


@pytest.mark.parametrize("text", ["", " ", "{", "[1]x", '{"a":}', '"\n"', "nul", '"\\u12"'])
def test_text_that_is_not_json_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="line 1 column"):
        fast_json.read(text)


def test_blanks_around_a_document_are_no_part_of_it() -> None:
    assert fast_json.read(" [1]\n") == [1]


def test_objects_without_json_form_are_refused_or_passed_to_default() -> None:
    around: list[object] = []
    around.append(around)
    with pytest.raises(ValueError, match="Circular"):
        fast_json.write(around)
    with pytest.raises(TypeError):
        fast_json.write(object())
    assert fast_json.write({"a": 1j}, default=str) == '{"a":"1j"}'


def test_nan_and_infinities_are_written_unless_forbidden() -> None:
    assert fast_json.write([math.inf, -math.inf]) == "[Infinity,-Infinity]"
    assert fast_json.read("[-Infinity]") == [-math.inf]
    with pytest.raises(ValueError, match="JSON compliant"):
        fast_json.write(math.nan, allow_nan=False)


def test_where_the_parts_in_c_are_missing_the_public_module_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_json, "_parts", None)
    monkeypatch.setattr(fast_json, "_scan", None)
    assert fast_json.write({"a": [1, "ü"]}) == '{"a":[1,"\\u00fc"]}'
    assert fast_json.read('{"a": null}') == {"a": None}
