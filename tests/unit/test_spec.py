"""A call that is malformed is told what is wrong with it, field by field, in words of its own world."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox import SpecError
from sandbox.spec import call_spec, environment_spec, reading_spec

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no source": ({"source": None}, "source: is missing"),
    "a source of another kind": ({"source": 3}, "source: must be text or bytes"),
    "no such field": ({"sauce": "x"}, "sauce: there is no such field"),
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
        "env.A: an environment variable holds no NUL and at most 128 KiB",
    ),
    "a tenant of another kind": ({"tenant": 3}, "tenant: must be text"),
    "a tenant with a long name": ({"tenant": "x" * 300}, "tenant: must have at most 256 characters"),
    "no entry at all": ({"entry": ""}, "entry: must have at least 1 character"),
    "a file of another kind": (
        {"files": {"a": 3}},
        "files.a: the content of a file is bytes, or the path of a file of this host",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_told_in_plain_words(kind: str) -> None:
    fields, told = WRONG[kind]
    with pytest.raises(SpecError) as refused:
        call_spec({"source": "def tool(): ...", **fields})
    assert refused.value.message == told


def test_all_that_is_wrong_is_told_at_once_and_bounded() -> None:
    with pytest.raises(SpecError) as refused:
        call_spec({"source": 3, "tenant": 3, **{f"wrong{number}": number for number in range(100)}})
    assert refused.value.message.startswith("source: must be text or bytes; tenant: must be text; wrong0: ")
    assert len(refused.value.message) < 4000


def test_other_specs_are_told_alike() -> None:
    with pytest.raises(SpecError, match="source: must be text or bytes"):
        reading_spec({"source": 3})
    with pytest.raises(SpecError, match="requirements: must be a list such as"):
        environment_spec({"requirements": "requests"})
