"""Attack: know the random numbers of another call.

All calls of a box are forked from one process, and whatever has drawn or will draw numbers there is copied with it:
without care two calls make the same session keys, the same temporary names, the same identifiers.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from sandbox import Sandbox
from tests.escape.engines import Engine

MODULES: Final = ["random", "secrets", "uuid", "tempfile", "ssl"]
DRAW: Final = f"""
import sys
WAS_THERE = [name for name in {MODULES!r} if name in sys.modules]
import os, random, secrets, ssl, tempfile, uuid

def tool() -> dict:
    return {{
        "was_there": WAS_THERE,
        "drawn": {{
            "random": random.random(),
            "state": hash(random.getstate()),
            "choice": random.sample(range(10**9), 3),
            "normal": random.gauss(0, 1),
            "system": random.SystemRandom().random(),
            "secret": secrets.token_hex(),
            "identifier": str(uuid.uuid4()),
            "time identifier": str(uuid.uuid1()),
            "name": next(tempfile._get_candidate_names()),
            "file": tempfile.mkdtemp(),
            "ssl": ssl.RAND_bytes(16).hex(),
            "kernel": os.urandom(16).hex(),
        }},
    }}
"""
_PATIENCE_S: Final = 60.0
_CALLS: Final = 6


@pytest.mark.slow
def test_calls_forked_from_a_process_that_drew_numbers_draw_others(engine: Engine) -> None:
    _wait_until_shared(engine)
    _assert_all_different([engine.value(DRAW) for _ in range(_CALLS)])


@pytest.mark.slow
def test_calls_at_the_same_time_draw_different_numbers(sandbox: Sandbox) -> None:
    outcomes = sandbox.map(DRAW, [{} for _ in range(8)])
    _assert_all_different([outcome.value for outcome in outcomes])


def _wait_until_shared(engine: Engine) -> None:
    """Until calls find all of the modules imported ahead: only then is there anything that they could share."""
    deadline = time.monotonic() + _PATIENCE_S
    while engine.value(DRAW)["was_there"] != MODULES:
        assert time.monotonic() < deadline, "nothing is imported ahead: this test can tell nothing"


def _assert_all_different(answers: list[Any]) -> None:
    kinds = answers[0]["drawn"]
    different = {kind: len({str(answer["drawn"][kind]) for answer in answers}) for kind in kinds}
    assert {kind: count for kind, count in different.items() if count < len(answers)} == {}
