"""A process that imports packages ahead of its call waits for that call only if it has left nothing running."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from sandbox.protocol.messages import Hello, ValueReply
from tests.end_to_end.calls import wait_until
from tests.runners.plain_runner import plain_plan, start_runner

pytestmark = pytest.mark.slow

_TRIES: Final = 3
_LEAVING_AN_ORPHAN: Final = """
import os, time
with open({ran!r}, "a") as file:
    file.write("once\\n")
child = os.fork()
if child == 0:
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_process_whose_packages_leave_an_orphan_does_not_wait_for_a_call(tmp_path: Path) -> None:
    """The orphan is a child of the guard, and would run while no call does. The runner gives up after a few tries."""
    folder, ran = tmp_path / "calls", tmp_path / "ran"
    folder.mkdir()
    (tmp_path / "leaving.py").write_text(_LEAVING_AN_ORPHAN.format(ran=str(ran)))
    places = {"installed": ["/environment", str(tmp_path)], "imports_ahead": True, "import_s": 30}
    plan = plain_plan(folder, preload=["leaving"], ahead=1, **places)
    with start_runner(plan, python=sys.executable) as runner:
        assert isinstance(runner.hear(), Hello)
        children = psutil.Process(runner.pid).children
        assert wait_until(lambda: ran.exists() and len(ran.read_text().split()) == _TRIES)
        assert wait_until(lambda: children(recursive=True) == [])
        reply = runner.run("import sys\nknown = 'leaving' in sys.modules\ndef tool():\n    return known\n").reply
        assert isinstance(reply, ValueReply), reply
        assert reply.value is False
