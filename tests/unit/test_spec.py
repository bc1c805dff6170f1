"""A malformed call gets an error for each wrong field, in the caller's terms."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from sandbox import SpecError
from sandbox.spec import (
    CallFields,
    CallSpec,
    EnvironmentFields,
    EnvironmentSpec,
    ReadingFields,
    ReadingSpec,
    call_spec,
    environment_spec,
    reading_spec,
)

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no source": ({"source": None}, "source: is missing"),
    "a source of another kind": ({"source": 3}, "source: must be text or bytes"),
    "no such field": ({"colour": "x"}, "colour: there is no such field"),
    "nearly a field": ({"polcy": "x"}, "polcy: there is no such field, did you mean 'policy'?"),
    "what the command line has": (
        {"timeout": 3},
        'timeout: there is no such field, did you mean limits={"wall": …}?',
    ),
    "no such field of an output": (
        {"outputs": {"value": {"charactrs": 3}}},
        "outputs.value.charactrs: there is no such field",
    ),
    "one requirement, not a list": (
        {"requirements": "requests"},
        'requirements: must be a list such as ["requests==2.32.3"]',
    ),
    "a requirement of another kind": (
        {"requirements": [3]},
        'requirements: must be a list such as ["requests==2.32.3"]',
    ),
    "a policy of another kind": (
        {"policy": 3},
        "policy: must be the name of a policy, the path of a policy file, or a Policy",
    ),
    "limits of another kind": ({"limits": "5s"}, 'limits: must be a mapping such as {"wall": "5s"}'),
    "a variable of another kind": (
        {"env": {"A": 1}},
        'env: must be a mapping of names to text, such as {"CITY": "Oslo"}',
    ),
    "a variable with an odd name": ({"env": {"A=B": "x"}}, "env: 'A=B' is not the name of an environment variable"),
    "a variable that no process can have": (
        {"env": {"A": "\0"}},
        "env.A: an environment variable must not hold a NUL or more than 128 KiB",
    ),
    "no tenant": ({"tenant": None}, "tenant: must not be None: None would share boxes with all calls without a tenant"),
    "no policy": (
        {"policy": None},
        "policy: must not be None: None would mean the default policy instead of the engine's",
    ),
    "a state of another kind": ({"state": 5}, "state must be a mapping of names to values, not int"),
    "a tenant of another kind": ({"tenant": 3}, "tenant: must be text"),
    "a tenant with a long name": ({"tenant": "x" * 300}, "tenant: must have at most 256 characters"),
    "no entry at all": ({"entry": ""}, "entry: must have at least 1 character"),
    "a file of another kind": (
        {"files": {"a": 3}},
        "files.a: the content of a file must be bytes, or the path of a file of this host",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_field_is_explained_in_plain_words(kind: str) -> None:
    fields, told = WRONG[kind]
    with pytest.raises(SpecError) as refused:
        call_spec({"source": "def tool(): ...", **fields})
    assert refused.value.message == told


def test_all_wrong_fields_are_reported_at_once_up_to_a_bound() -> None:
    with pytest.raises(SpecError) as refused:
        call_spec({"source": 3, "tenant": 3, **{f"wrong{number}": number for number in range(100)}})
    assert refused.value.message.startswith("source: must be text or bytes; tenant: must be text; wrong0: ")
    assert len(refused.value.message) < 4000


def test_an_unknown_field_is_answered_with_the_list_of_fields() -> None:
    with pytest.raises(SpecError) as refused:
        call_spec({"source": "x", "colour": 1})
    assert refused.value.remedy == f"there are: {', '.join(CallFields.__annotations__)}"
    with pytest.raises(SpecError) as refused:
        call_spec({"source": 3})
    assert refused.value.remedy is None


@pytest.mark.parametrize(
    ("fields", "spec", "given_otherwise"),
    [
        (CallFields, CallSpec, {"source", "args"}),
        (EnvironmentFields, EnvironmentSpec, {"source"}),
        (ReadingFields, ReadingSpec, {"source"}),
    ],
)
def test_type_checkers_know_every_field_of_a_spec(
    fields: Any, spec: type[BaseModel], given_otherwise: set[str]
) -> None:
    assert set(fields.__annotations__) | given_otherwise == set(spec.model_fields)


def test_other_specs_report_errors_alike() -> None:
    with pytest.raises(SpecError, match="source: must be text or bytes"):
        reading_spec({"source": 3})
    with pytest.raises(SpecError, match="requirements: must be a list such as"):
        environment_spec({"requirements": "requests"})
    with pytest.raises(SpecError, match="tenant: must not be None"):
        environment_spec({"tenant": None})
