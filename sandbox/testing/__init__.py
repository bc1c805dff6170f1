"""For the tests of programs that use Sandbox: a backend without processes, and the suite that every backend passes.

`FakeBackend` is a whole backend in memory. Calls go through the real engine (arguments are checked, policies tightened,
outputs shaped, limits watched) and through the real protocol to a runner that does not run the tool's source but gives
the answers of the test. Requirements are checked, and neither resolved nor installed. So a test is quick, needs no
Linux and no package index, and sees the outcome that a real box would give::

    from sandbox import Sandbox, Status
    from sandbox.testing import FakeBackend, hangs, prints, script

    def test_the_agent_retries_a_slow_search() -> None:
        backend = FakeBackend(
            answers={
                "word_count": {"words": 6},                          # returns this
                "double": lambda number: 2 * number,                 # returns what this returns, fails as it fails
                "search": script(prints("looking…\\n"), hangs()),    # prints, then runs into its time limit
            }
        )
        with Sandbox(backend=backend) as sandbox:
            outcome = sandbox.run(SEARCH, {"query": "x"}, limits={"wall": 0.1})
        assert outcome.status is Status.TIMEOUT
        assert outcome.stdout.text == "looking…\\n"
        assert [call.arguments for call in backend.calls] == [{"query": "x"}]

The steps of a tool are `returns`, `raises`, `exits`, `prints`, `leaves` (files), `gives` (as a generator does),
`hangs`, `crashes`, `exceeds`, `loses_box` and `uses`, one of them or several in a `script`. As far as a tool that is
not run can, the fake passes the same suite as every backend: see `sandbox.testing.contract`.
"""

from sandbox.testing.answers import (
    Answer,
    Script,
    Step,
    crashes,
    exceeds,
    exits,
    gives,
    hangs,
    leaves,
    loses_box,
    prints,
    raises,
    returns,
    script,
    uses,
)
from sandbox.testing.fake_backend import FakeBackend, FakeBox
from sandbox.testing.fake_call import FakeCall

__all__ = [
    "Answer",
    "FakeBackend",
    "FakeBox",
    "FakeCall",
    "Script",
    "Step",
    "crashes",
    "exceeds",
    "exits",
    "gives",
    "hangs",
    "leaves",
    "loses_box",
    "prints",
    "raises",
    "returns",
    "script",
    "uses",
]
