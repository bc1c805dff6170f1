"""A template is foreign: its messages never block the zygote."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from zygote.template import TemplateProcess
from zygote.template_control import TemplateControl
from zygote.template_view import TemplateLost


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
