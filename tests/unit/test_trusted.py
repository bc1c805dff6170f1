"""Objects built without validation equal those that validation would build."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from sandbox import AsyncSandbox
from sandbox.outcome import Outcome, Shaped, Timing, Usage
from sandbox.protocol.messages import ValueReply, parse_reply
from sandbox.spec import CallSpec, call_spec, plain_spec
from sandbox.testing.fake_backend import FakeBackend
from sandbox.trusted import build_trusted

SOURCE = "def tool(n):\n    return n\n"


def whole(model: BaseModel) -> bool:
    return model.__dict__.keys() == type(model).model_fields.keys()


async def outcome_of_a_call() -> Outcome:
    def answer(name: str, arguments: dict[str, Any]) -> object:
        return {"got": arguments["n"]}

    async with AsyncSandbox(backend=FakeBackend(answer)) as sandbox:
        return await sandbox.run(SOURCE, {"n": 1})


def test_an_unvalidated_outcome_has_every_field_and_reads_back_unchanged() -> None:
    outcome = asyncio.run(outcome_of_a_call())
    assert all(map(whole, (outcome, outcome.shaped_value, outcome.usage, outcome.timing)))
    assert outcome == Outcome.from_json(outcome.to_json())
    kinds = (type(outcome.shaped_value), type(outcome.usage), type(outcome.timing))
    assert kinds == (Shaped, Usage, Timing)


def test_a_plain_call_has_the_spec_that_validation_builds() -> None:
    looked_at = call_spec({"source": SOURCE, "args": {"n": 1}, "policy": "strict"})
    made = plain_spec(SOURCE, {"n": 1}, "strict")
    assert whole(made)
    assert made.model_copy(update={"call_id": looked_at.call_id}) == looked_at
    assert CallSpec.model_validate(made.model_dump()) == made


def test_a_reply_of_a_value_alone_equals_the_validated_one() -> None:
    reply = parse_reply(b'{"kind":"value","value":[1],"warnings":[]}')
    assert whole(reply)
    assert reply == ValueReply.model_validate(reply.model_dump())


def test_an_unvalidated_model_is_frozen_and_copied_like_any() -> None:
    usage = build_trusted(Usage, **(dict.fromkeys(Usage.model_fields) | {"wall_s": 1.0}))
    assert usage == Usage(wall_s=1.0)
    assert usage.model_copy(update={"cpu_s": 2.0}) == Usage(wall_s=1.0, cpu_s=2.0)
