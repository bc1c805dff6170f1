"""Checks of documents against schemas, also hostile ones, fetch nothing, never hang, and report every problem."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.errors import SchemaRefused
from sandbox.tools.schemas import SchemaFinding, validator

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
}


def test_every_problem_comes_with_its_place() -> None:
    checked = validator(PERSON)
    assert checked.problems({"name": "x", "tags": ["a"]}) == ()
    assert checked.is_valid({"name": "x"})
    assert {problem.path for problem in checked.problems({"tags": ["a", 1, None]})} == {
        "root",
        "root.tags[1]",
        "root.tags[2]",
    }


def test_messages_are_short_and_few() -> None:
    problems = validator(PERSON).problems({"name": "x", "tags": [["x" * 10_000]] * 500})
    assert len(problems) == 100
    assert all(len(problem.message) <= 200 for problem in problems)


@pytest.mark.parametrize("document", [float("nan"), {1: 2}, "\ud800", 2**64, object(), {"a": {1, 2}}])
def test_a_value_that_is_not_json_fits_no_schema(document: Any) -> None:
    assert not validator({}).is_valid(document)


NO_SCHEMAS: list[tuple[Any, str]] = [
    (None, "root"),
    (True, "root"),
    ({"type": "text"}, "root.type"),
    ({"properties": {"a": {"minLength": "x"}}}, "root.properties.a.minLength"),
    ({"items": {"pattern": "("}}, "root.items.pattern"),
    ({"pattern": "(a{1000}){1000}"}, "root.pattern"),
    ({"$ref": "#/$defs/missing"}, "root"),
    ({"properties": {"a": {"$ref": 5}}}, "root.properties.a"),
    ({"properties": {"a": {"$ref": "other.json"}}}, "root.properties.a"),
    ({"$id": "http://127.0.0.1/", "items": {"$ref": "x#/$defs/y"}}, "root.items"),
    ({"$dynamicRef": "http://127.0.0.1/#x"}, "root"),
    ({"items": {"$ref": "file:///etc/hostname"}}, "root.items"),
]


@pytest.mark.parametrize(("schema", "path"), NO_SCHEMAS)
def test_an_invalid_schema_is_refused_with_its_place(schema: Any, path: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        validator(schema)
    assert path in [reason.path for reason in refused.value.reasons]


class _Counting(http.server.BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


@pytest.fixture
def web_server() -> Iterator[tuple[str, list[str]]]:
    """Yield the url of a server that offers schemas to every client, and the requests that it got."""
    asked: list[str] = []
    server = http.server.HTTPServer(("127.0.0.1", 0), type("Asked", (_Counting,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_no_address_in_a_schema_is_ever_fetched(web_server: tuple[str, list[str]]) -> None:
    address, asked = web_server
    places: list[Any] = [
        {"$ref": f"{address}/ref"},
        {"items": {"$ref": f"{address}/ref#/x"}},
        {"$id": address, "items": {"$ref": "/relative"}},
        {"$id": address, "items": {"$id": f"{address}/inner", "$ref": "#/$defs/x"}},
        {"$schema": f"{address}/dialect", "type": "object"},
        {"$defs": {"a": {"$schema": f"{address}/dialect", "$id": f"{address}/a"}}, "$ref": "#/$defs/a"},
        {"$dynamicRef": f"{address}/dynamic"},
        {"not": {"if": {"$ref": f"{address}/deep"}}},
        {"unknownKeyword": {"$ref": f"{address}/unknown"}},
        {"dependencies": {"a": {"$ref": f"{address}/old"}}},
    ]
    for schema in places:
        try:
            validator(schema).is_valid({"a": [1]})
        except SchemaRefused:
            continue
    assert asked == []


BOMBS = ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+$)a", "^(a|aa)+$", r"^(\w+\s?)*$", r"(a+)+\1b"]


@pytest.mark.parametrize("pattern", BOMBS)
def test_no_pattern_hangs(pattern: str) -> None:
    validator({"pattern": pattern}).problems("a" * 5000 + "!")


def _doubling(levels: int) -> Any:
    chain: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{levels}": {"type": "string"}}}


def _nested(levels: int, core: Any) -> Any:
    for _ in range(levels):
        core = {"x": core}
    return core


def test_comparisons_that_multiply_are_counted_instead_of_made() -> None:
    assert validator(_doubling(60)).problems(1) == (SchemaFinding("root", "is too large to compare with this schema"),)
    assert not validator(_doubling(10)).is_valid(1)
    assert validator(_doubling(10)).is_valid("x")


@pytest.mark.parametrize("union", ["anyOf", "oneOf", "allOf"])
def test_recursion_in_unions_does_not_hang(union: str) -> None:
    member = {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}
    assert validator({union: [member, {**member, "title": "again"}]}).problems(_nested(100, 1))


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}, {"not": {"not": {"$ref": "#"}}}])
def test_a_schema_that_only_refers_to_itself_ends(schema: Any) -> None:
    assert isinstance(validator(schema).is_valid({"a": 1}), bool)


def test_a_recursive_schema_checks_deep_documents() -> None:
    any_json = {"anyOf": [{"type": ["string", "integer"]}, {"type": "object", "additionalProperties": {"$ref": "#"}}]}
    assert validator(any_json).is_valid(_nested(90, "x"))
    assert not validator(any_json).is_valid(_nested(90, None))


@pytest.mark.slow
def test_a_large_document_that_does_not_fit_gets_one_problem() -> None:
    problems = validator({"items": {"type": "string"}}).problems(list(range(200_000)))
    assert problems == (SchemaFinding("root", "does not fit the schema, and is too large to say where"),)


def test_a_text_is_matched_with_a_pattern_while_that_is_cheap() -> None:
    checked = validator({"pattern": "(a{100}){20}$"})
    assert checked.is_valid("a" * 100_000)
    assert checked.problems("a" * 3_000_000) == (SchemaFinding("root", "is too large to compare with this schema"),)
    assert not validator({"propertyNames": {"pattern": "^b"}}).is_valid({"a": 1})
    assert not validator({"patternProperties": {"a$": False}}).is_valid({"x" * 3_000_000: 1})


@pytest.mark.parametrize(
    "pattern", [r"^.{1,500}$", r"^[^/]{1,255}$", r"^\p{L}{1,100}$", r"^(?=.{1,253}$)x?", r"^\w{1,255}$"]
)
def test_ordinary_patterns_are_not_too_large(pattern: str) -> None:
    assert validator({"type": "string", "pattern": pattern}).is_valid("x")


def test_large_patterns_are_weighed_together() -> None:
    large = {f"p{number}": {"pattern": f"^[^/]{{{number + 400}}}$"} for number in range(10)}
    with pytest.raises(SchemaRefused, match="too large together"):
        validator({"properties": large})


def test_patterns_are_few() -> None:
    def with_patterns(count: int) -> Any:
        return {"properties": {f"p{number}": {"pattern": f"^{number}"} for number in range(count)}}

    assert validator(with_patterns(1000)).is_valid({"p0": "0"})
    with pytest.raises(SchemaRefused, match="1001 patterns"):
        validator(with_patterns(1001))
