"""What only failing calls need is loaded once a call has failed, for those that fail after it."""

from __future__ import annotations

from typing import Final

from sandbox import Sandbox, Status
from sandbox.testing import FakeBackend, raises, script

TOOL: Final = "def tool(fails: bool):\n    pass\n"


def test_a_box_whose_calls_fail_has_what_writes_tracebacks_loaded_once() -> None:
    backend = FakeBackend({"tool": lambda fails: script(raises(ValueError("no"))) if fails else 1})
    with Sandbox(backend=backend) as sandbox:
        assert sandbox.run(TOOL, {"fails": False}).status is Status.OK
        assert backend.boxes[0].preloaded == ()
        for _ in range(2):
            assert sandbox.run(TOOL, {"fails": True}).status is Status.EXCEPTION
        assert [box.preloaded for box in backend.boxes] == [("ast", "traceback")]
