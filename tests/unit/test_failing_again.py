"""A box loads the modules for tracebacks once a call has failed, for later calls that fail."""

from __future__ import annotations

from typing import Final

from sandbox import Sandbox, Status
from sandbox.testing import FakeBackend, raises, script

TOOL: Final = "def tool(fails: bool):\n    pass\n"


def test_a_box_with_a_failed_call_preloads_traceback_modules_once() -> None:
    backend = FakeBackend({"tool": lambda fails: script(raises(ValueError("no"))) if fails else 1})
    with Sandbox(backend=backend) as sandbox:
        assert sandbox.run(TOOL, {"fails": False}).status is Status.OK
        assert backend.boxes[0].preloaded == ()
        for _ in range(2):
            assert sandbox.run(TOOL, {"fails": True}).status is Status.EXCEPTION
        assert [box.preloaded for box in backend.boxes] == [("ast", "traceback")]
