"""Attack: speak to a program of the host by a unix socket in a folder that the policy shows, read-only.

Read-only does not hold for sockets: a user who may write to the socket itself may connect. A program may also begin
to listen there while a box is warm. Both kinds are tried, and from outside first: a socket that could not be reached
proves nothing.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.errors import BackendUnavailable
from sandbox.policy import load
from tests.escape.attempts import ATTEMPT
from tests.escape.container_engines import KEPT, Besieged, box, opened, variants
from tests.escape.engines import Engine

__all__ = ["box", "opened"]

SPEAK: Final = f"""{ATTEMPT}
import socket

def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as near:
        near.connect(path)

def send(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as near:
        near.sendto(b"attack", path)

def send_from_a_pair(path: str) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.sendto(b"attack", path)

def connect_a_pair(path: str) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.connect(path)
        near.send(b"attack")

def connect_a_pair_of_streams(path: str) -> None:
    near, far = socket.socketpair()
    far.close()
    with near:
        near.connect(path)

def tool(folder: str) -> dict:
    with open(folder + "/file") as file:
        assert file.read() == "shown"
    found = {{}}
    for parent, _, names in os.walk(folder):
        for name in names:
            if name != "file":
                path = os.path.join(parent, name)
                for act in (connect, send, send_from_a_pair, connect_a_pair, connect_a_pair_of_streams):
                    found[name + ": " + act.__name__] = attempt(act, path)
    near, far = socket.socketpair()
    with near, far:
        near.send(b"honest")
        assert far.recv(6) == b"honest"
    return found
"""


class ShownFolder:
    """A folder of the host with a file in it, and sockets that everybody may speak to."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack
        self._listeners: list[socket.socket] = []
        (path / "deep").mkdir()
        (path / "file").write_text("shown")
        (path / "link").symlink_to("deep/early-stream")
        for place in (path, path / "deep"):
            place.chmod(0o755)

    def listen(self, name: str) -> None:
        """Begin to listen on a stream and a datagram socket."""
        for kind, form in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            listener = self._stack.enter_context(socket.socket(socket.AF_UNIX, form))
            address = self.path / "deep" / f"{name}-{kind}"
            listener.bind(str(address))
            address.chmod(0o777)
            listener.setblocking(False)
            if form is socket.SOCK_STREAM:
                listener.listen()
            self._listeners.append(listener)

    def heard(self) -> int:
        """Return how many sockets a program spoke to since the last time."""
        return sum(_has_heard(listener) for listener in self._listeners)


def _has_heard(listener: socket.socket) -> bool:
    found = False
    try:
        while True:
            if listener.type is socket.SOCK_STREAM:
                listener.accept()[0].close()
            else:
                listener.recv(100)
            found = True
    except BlockingIOError:
        return found


@pytest.fixture
def shown() -> Iterator[ShownFolder]:
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-escape-", dir="/var/lib"))
        yield ShownFolder(Path(name), stack)


def _besiege(call: Callable[..., Any], shown: ShownFolder, policy: dict[str, Any]) -> None:
    policy |= {"filesystem": {"readable": [str(shown.path)]}}
    args = {"folder": str(shown.path)}
    from_outside: dict[str, Any] = {}
    shown.listen("early")
    exec(SPEAK, from_outside)
    assert list(from_outside["tool"](str(shown.path)).values()).count("done") >= 4
    assert shown.heard() == 2
    for moment in ("early", "late"):
        found = call(SPEAK, args, policy=policy)
        assert any(name.startswith(moment) for name in found)
        assert {name: answer for name, answer in found.items() if answer == "done"} == {}
        assert shown.heard() == 0
        shown.listen("late") if moment == "early" else None


@pytest.mark.root
def test_no_socket_in_a_shown_folder_can_be_spoken_to(engine: Engine, shown: ShownFolder) -> None:
    _besiege(engine.value, shown, load("default").model_dump(mode="json"))


@pytest.mark.root
def test_no_socket_of_the_engines_own_user_can_be_spoken_to(without_root: Engine, shown: ShownFolder) -> None:
    os.chown(shown.path, 65534, 65534)
    _besiege(without_root.value, shown, load("default").model_dump(mode="json"))


OPEN: Final = """
def tool(path: str) -> str:
    open(path, "rb").close()
    return path
"""


@pytest.mark.slow
@pytest.mark.root
@variants(KEPT)
@pytest.mark.parametrize("path", ["/usr", "/usr/lib", "/environment", "/tmp/elsewhere", "/no/such/folder"])
def test_a_container_that_cannot_show_a_path_is_refused(path: str, box: Besieged) -> None:
    policy = box.variant.policy.model_dump(mode="json") | {"filesystem": {"readable": [path]}}
    with pytest.raises(BackendUnavailable) as refused:
        box.run(OPEN, {"path": path}, policy=policy)
    assert path in refused.value.message
    assert refused.value.remedy


@pytest.mark.slow
@pytest.mark.root
@variants(KEPT)
def test_a_file_that_is_shown_alone_leaves_unix_sockets_as_they_are(box: Besieged, shown: ShownFolder) -> None:
    (shown.path / "file").chmod(0o644)
    path = str(shown.path / "file")
    policy = box.variant.policy.model_dump(mode="json") | {"filesystem": {"readable": [path]}}
    source = OPEN.replace("return path", "import socket; socket.socket(socket.AF_UNIX).close(); return path")
    outcome = box.run(source, {"path": path}, policy=policy)
    assert outcome.value == path, outcome.error


@pytest.mark.slow
@pytest.mark.root
@variants()
def test_no_socket_in_a_shown_folder_can_be_spoken_to_from_containers(box: Besieged, shown: ShownFolder) -> None:
    _besiege(box.value, shown, box.variant.policy.model_dump(mode="json"))
