"""Every call enters a separate slot first, and a slot in use serves no other call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.protocol import frames
from sandbox.protocol.frames import Stream
from tests.runners.plain_runner import Runner, plain_plan, start_runner_on_a_socket
from zygote.slots import SlotTable

IDLE = "import time\ndef tool():\n    print('here', flush=True)\n    time.sleep(600)\n"


@contextmanager
def _doors(count: int) -> Iterator[list[tuple[int, int]]]:
    pairs = [os.pipe() for _ in range(count)]
    try:
        yield pairs
    finally:
        for number in (number for pair in pairs for number in pair):
            try:
                os.close(number)
            except OSError:
                continue


def test_slots_are_taken_in_order() -> None:
    slots = SlotTable(is_needed=True)
    assert not slots.has_room
    for slot in (7, 8):
        slots.add(slot, [])
    assert (slots.take(), slots.take(), slots.has_room) == (7, 8, False)


def test_half_of_the_free_slots_are_given_up_but_never_the_last() -> None:
    slots = SlotTable(is_needed=True)
    with _doors(5) as pairs:
        for slot, (_, door) in enumerate(pairs):
            slots.add(slot, [door])
        assert slots.take() == 0
        assert [slots.give_up_some() for _ in range(3)] == [True, True, False]
        assert [os.read(reading, 1) for reading, _ in pairs[2:]] == [b""] * 3
        slots.release(4, retire=False)  # the engine does not know that the slot was given up
        assert slots.take() == 1
        assert not slots.has_room


def test_calls_without_slots_always_have_room() -> None:
    slots = SlotTable(is_needed=False)
    assert (slots.has_room, slots.take(), slots.doors(None)) == (True, None, ())
    slots.hold(None)
    slots.vacate(None)
    assert slots.has_room


@pytest.mark.parametrize("reaped_first", [True, False])
def test_a_slot_is_free_after_reaping_and_reading(reaped_first: bool) -> None:
    slots = SlotTable(is_needed=True)
    slots.add(7, [])
    slots.take()
    slots.hold(7)
    if reaped_first:
        slots.vacate(7)
    else:
        slots.release(7, retire=False)
    assert not slots.has_room
    if reaped_first:
        slots.release(7, retire=False)
    else:
        slots.vacate(7)
    assert (slots.has_room, slots.take(), slots.has_room) == (True, 7, False)


def test_a_slot_of_an_uncalled_child_is_free_after_reaping() -> None:
    slots = SlotTable(is_needed=True)
    slots.add(7, [])
    slots.take()
    slots.vacate(7)
    assert slots.take() == 7


def test_a_retired_slot_is_closed_and_never_taken_again() -> None:
    slots = SlotTable(is_needed=True)
    with _doors(1) as [(near, far)]:
        slots.add(7, [far])
        slots.take()
        slots.hold(7)
        slots.release(7, retire=True)
        slots.vacate(7)
        assert os.read(near, 1) == b""
    assert not slots.has_room


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with start_runner_on_a_socket(plain_plan(tmp_path, slots=True)) as runner:
        runner.hear()
        yield runner


def _lend(runner: Runner, slot: int, doors: list[int]) -> None:
    """Send the descriptors with the first byte of the message, well before its last."""
    runner.send(frames.pack_message({"type": "slots", "slots": [[slot, len(doors)]]}), doors)
    for door in doors:
        os.close(door)


@pytest.mark.slow
def test_a_call_waits_for_a_slot_and_enters_it_by_every_door(runner: Runner) -> None:
    with _doors(2) as [(first, first_far), (second, second_far)]:
        runner.call(1, "def tool():\n    return 1\n")
        _lend(runner, 7, [first_far, second_far])
        started = runner.wait(1).started
        assert (started and started.slot, os.read(first, 9), os.read(second, 9)) == (7, b"0", b"0")


@pytest.mark.slow
def test_a_slot_is_reused_only_after_its_release(runner: Runner) -> None:
    with _doors(1) as [(near, far)]:
        _lend(runner, 7, [far])
        runner.run("def tool(): pass\n")
        runner.call(2, "def tool(): pass\n")
        runner.call(3, "def tool(): pass\n")
        runner.say({"type": "kill", "id": 3})
        ended = runner.wait(3).ended
        assert (ended and ended.killed_by, runner.calls[2].started) == ("engine", None)
        runner.say({"type": "release", "slot": 7, "retire": False})
        started = runner.wait(2).started
        assert (started and started.slot, os.read(near, 9)) == (7, b"00")
        runner.say({"type": "release", "slot": 7, "retire": True})
        assert os.read(near, 9) == b""


@pytest.mark.slow
def test_a_tool_has_no_door_open(runner: Runner) -> None:
    with _doors(1) as [(near, far)]:
        _lend(runner, 7, [far])
        runner.call(1, IDLE)
        runner.wait_for(1, Stream.STDOUT, b"here")
        runner.say({"type": "release", "slot": 7, "retire": True})
        assert os.read(near, 9) == b"0"
        assert os.read(near, 9) == b""
        runner.say({"type": "kill", "id": 1})
        runner.wait(1)
