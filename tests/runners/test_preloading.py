"""What packages make when they are imported ahead, and what calls find of it: as if each had imported them itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.wire.frames import Stream
from sandbox.wire.messages import Hello, Unfit, ValueReply, parse_message
from tests.runners.interpreters import interpreters
from tests.runners.plain_runner import Runner, Seen, plain_plan, start_runner

pytestmark = pytest.mark.slow

Preload = Callable[[str], AbstractContextManager[Runner]]
KEEPS_STREAMS: Final = """
import sys
OUT = sys.stdout
def say(text, file=sys.stderr):
    print(text, file=OUT)
    print(text, file=file)
"""

GENERATORS: Final = """
import random
class Own(random.Random):
    def random(self): return super().random() / 2
ONE, OTHER, SEEDED = random.Random(), Own(), random.Random(7)
LATER = random.Random()
LATER.seed(b"on purpose")
"""
DRAWS: Final = """
import made
def tool():
    return [[each.random() for each in some] for some in ((made.ONE, made.OTHER), (made.SEEDED, made.LATER))]
"""


@pytest.fixture(params=interpreters())
def preloaded(request: pytest.FixtureRequest, tmp_path: Path) -> Preload:
    """A runner that has imported a package of this text, called `made`."""

    @contextmanager
    def preload(text: str) -> Iterator[Runner]:
        (tmp_path / "made.py").write_text(text)
        (tmp_path / "calls").mkdir()
        plan = plain_plan(tmp_path / "calls", installed=["/environment", str(tmp_path)], preload=["made"])
        with start_runner(plan, python=interpreters()[request.param]) as runner:
            hello = runner.hear()
            assert isinstance(hello, Hello)
            assert (hello.failed, hello.is_fit) == ({}, True)
            yield runner

    return preload


def test_what_goes_to_streams_that_a_package_kept_is_printed_by_the_call(preloaded: Preload) -> None:
    with preloaded(KEEPS_STREAMS) as runner:
        seen = runner.run("import made\ndef tool():\n    made.say('kept')\n")
        assert (seen.stdout, bytes(seen.streams[Stream.STDERR])) == (b"kept\n", b"kept\n")


def test_generators_that_nobody_seeded_draw_other_numbers_in_each_call(preloaded: Preload) -> None:
    with preloaded(GENERATORS) as runner:
        found = [_value(runner.run(DRAWS)) for _ in range(3)]
    assert len({number for numbers, _ in found for number in numbers}) == 6
    assert [seeded for _, seeded in found] == [[random.Random(7).random(), random.Random(b"on purpose").random()]] * 3


def test_descriptors_that_a_package_leaves_are_counted(tmp_path: Path) -> None:
    (tmp_path / "closed.py").write_text("open(__file__).close()\n")
    (tmp_path / "kept.py").write_text("KEPT = [open(__file__), open(__file__)]\n")
    (tmp_path / "calls").mkdir()
    plan = plain_plan(tmp_path / "calls", installed=["/environment", str(tmp_path)])
    for modules, count in (["closed"], 0), (["closed", "kept"], 2):
        with start_runner({**plan, "preload": modules}) as runner:
            hello = runner.hear()
            assert isinstance(hello, Hello)
            assert (hello.descriptors, hello.is_fit) == (count, not count)
    with start_runner(plan) as runner:
        assert isinstance(runner.hear(), Hello)
        runner.say({"type": "preload", "modules": ["closed", "kept"]})
        assert parse_message(runner.next_message()) == Unfit(type="unfit")
        on_its_way = "import kept\ndef tool():\n    return [each.read(4) for each in kept.KEPT]\n"
        assert _value(runner.run(on_its_way)) == ["KEPT", "KEPT"]


def _value(seen: Seen) -> Any:
    assert isinstance(seen.reply, ValueReply), seen.reply
    return seen.reply.value
