"""Messages are parsed completely and cheaply."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sandbox.protocol.messages import NO_END, Ended, Gone, parse_message

GONE = (
    b'{"type": "gone", "line": 3, "exit_code": null, "signal": 9, "cpu_s": 0.5, "max_rss": 7, "bytes_free": null, '
    b'"inodes_free": 2, "killed_by": "memory"}'
)
SCRIPT = f"""
from sandbox.protocol import messages
messages.parse_message({GONE!r}).of_call(5)
messages.parse_reply(b'{{"kind": "denied", "message": "no"}}')
kinds = [each for each in vars(messages).values() if isinstance(each, type) and issubclass(each, messages.BaseModel)]
print([each.__name__ for each in kinds if each.__pydantic_complete__ and each is not messages.BaseModel])
"""


def test_the_end_of_a_child_is_the_end_of_its_call() -> None:
    gone = parse_message(GONE)
    assert isinstance(gone, Gone)
    ended = gone.of_call(5)
    assert ended == Ended.model_validate({**gone.model_dump(exclude={"line"}), "type": "ended", "id": 5})
    assert ended.model_fields_set == set(Ended.model_fields)


def test_an_end_without_facts_is_invalid() -> None:
    assert Ended.model_validate({**dict.fromkeys(Ended.model_fields), "type": "ended", "id": 0}) == NO_END


@pytest.mark.slow
def test_messages_are_parsed_without_building_a_model_for_each() -> None:
    answer = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
