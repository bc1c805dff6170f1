"""A template is foreign: its messages never block the zygote, and the zygote adopts what it leaves."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from tests.runners.isolated_program import ask
from zygote.template import TemplateProcess
from zygote.template_control import TemplateControl
from zygote.template_view import TemplateLost

_LEAVING_AN_ORPHAN: Final = """
sys.path.insert(0, given["runner"])
from zygote import template

def leave_an_orphan(whole, control, errors, doors):
    parent = os.fork()
    if parent == 0:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                os.sched_yield()
            os.write(errors, b"%d" % os.getppid())
        os._exit(0)
    os.waitpid(parent, 0)

template._main = leave_an_orphan
started = template.start({}, ())
os.set_blocking(started.errors, True)
adopter = os.read(started.errors, 16)
answer({"adopter": int(adopter), "zygote": os.getpid()})
"""


@pytest.fixture
def ends() -> Iterator[tuple[TemplateControl, socket.socket]]:
    """Return the control of a template, and the template's end of the socket."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    control = TemplateControl(TemplateProcess(os.getpid(), near.detach(), reading))
    with far:
        yield control, far
    os.close(reading)
    os.close(writing)
    control._socket.close()


def test_a_few_messages_are_taken_in_their_order(ends: tuple[TemplateControl, socket.socket]) -> None:
    control, far = ends
    for ticket in range(3):
        far.send(b'{"done":%d}' % ticket)
    assert control._messages() == [{"done": 0}, {"done": 1}, {"done": 2}]
    assert control._messages() == []


def test_a_flood_is_the_end_of_the_template(ends: tuple[TemplateControl, socket.socket]) -> None:
    control, far = ends
    far.setblocking(False)
    with suppress(BlockingIOError):
        for _ in range(1000):
            far.send(b'{"done":1}')
    with pytest.raises(TemplateLost, match="flood"):
        control._messages()


@pytest.mark.parametrize("packet", [b"{", b"[]", b"\xff", b"[" * 10000])
def test_an_invalid_message_ends_the_template(packet: bytes, ends: tuple[TemplateControl, socket.socket]) -> None:
    control, far = ends
    far.send(packet)
    with pytest.raises(TemplateLost, match="write to the zygote"):
        control._messages()


def test_a_template_that_hangs_up_is_lost(ends: tuple[TemplateControl, socket.socket]) -> None:
    control, far = ends
    far.close()
    with pytest.raises(TemplateLost, match="ended the process"):
        control._messages()


def test_orphans_of_a_template_are_adopted_from_its_first_moment() -> None:
    """A container's init would adopt them otherwise, and nothing ends those while the container lasts."""
    answer = ask(_LEAVING_AN_ORPHAN)
    assert answer["adopter"] == answer["zygote"]
