"""A daemon that takes connections and never answers holds up no user, neither one who waits nor one who gives up."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.command_line import sandbox, start

pytestmark = pytest.mark.slow

TOOL: Final = "examples/fibonacci.py"
CALL: Final = ("run", TOOL, "-a", "count=5", "--backend", "container")
GONE_WITHIN_S: Final = 5.0
"""Ten times the duration on an idle machine."""


@pytest.fixture
def mute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where commands find their daemon."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "mute.sock"))
        listener.listen()
        listener.settimeout(60.0)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/mute.sock")
        yield listener


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_gives_up_a_call_is_not_kept_waiting(mute: socket.socket, number: signal.Signals) -> None:
    with start(*CALL) as command:
        with suppress(TimeoutError):
            asked, _ = mute.accept()
            while not asked.recv(1):  # a client connected
                asked.close()
                asked, _ = mute.accept()
        command.send_signal(number)
        begun = time.monotonic()
        _, said = command.communicate()
        assert time.monotonic() - begun < GONE_WITHIN_S
        asked.close()
    assert command.returncode == 130
    assert len(said.splitlines()) == 1, said


def test_a_waiting_user_soon_learns_what_to_do(mute: socket.socket) -> None:
    answer = sandbox(*CALL, env={"DOCKER_HOST": os.environ["DOCKER_HOST"]})
    assert answer.returncode == 5
    assert f"the Docker daemon at {os.environ['DOCKER_HOST']} took too long" in answer.stderr
    assert "listens there" in answer.stderr
    assert "Traceback" not in answer.stderr
