"""Files that a call is given, and files that it leaves."""

from __future__ import annotations

from typing import Any, Final

from sandbox.outcome import Status
from sandbox.testing.contract import expect
from sandbox.testing.contract.subject import UNTIL_BEGUN_S, Subject

COPY: Final = """
import os

def copy() -> list:
    os.makedirs("outputs/sub")
    with open("inputs/data/given.bin", "rb") as given, open("outputs/sub/left.bin", "wb") as left:
        left.write(given.read())
    os.symlink("/etc/passwd", "outputs/link")
    return sorted(os.listdir("inputs"))
"""
LEAVE_AND_HANG: Final = """
import os, time

def leave_and_hang() -> None:
    with open("outputs/part.txt", "w") as left:
        left.write("so far")
    print("written", flush=True)
    time.sleep(600)
"""
CONTENT: Final = bytes(range(256)) * 4096


async def check_files_go_in_and_come_out_as_they_are(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(COPY, files={"data/given.bin": CONTENT}))
    expect.same(outcome.value, ["data"])
    expect.same([each.name for each in outcome.artifacts], ["sub/left.bin"], what="the artifacts")
    kept: Any = await subject.sandbox.artifacts.show(outcome.artifacts[0].id)
    expect.that(kept.data == CONTENT, "what came out is not what went in")


async def check_what_is_no_plain_file_is_refused_by_name(subject: Subject) -> None:
    outcome = expect.ok(await subject.sandbox.run(COPY, files={"data/given.bin": b""}))
    expect.same([each.name for each in outcome.refused], ["link"], what="what was refused")


async def check_what_was_left_until_the_time_was_up_comes_back(subject: Subject) -> None:
    for wall in UNTIL_BEGUN_S:
        outcome = await subject.sandbox.run(LEAVE_AND_HANG, limits={"wall": wall})
        expect.ended(outcome, Status.TIMEOUT, limit_name="wall")
        if outcome.stdout.text:
            break
    expect.same((outcome.stdout.text, [each.name for each in outcome.artifacts]), ("written\n", ["part.txt"]))
    kept: Any = await subject.sandbox.artifacts.show(outcome.artifacts[0].id)
    expect.same(kept.text, "so far")
