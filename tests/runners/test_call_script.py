"""System calls that are recorded in a process and made in another."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from tests.runners.isolated_program import ask

WRITE_DOWN: Final = """
from kernel.calls import CallScript

os.closerange(3, 64)
script = CallScript(first_free=3)
"""


def test_recorded_calls_happen_at_every_run(tmp_path: Path) -> None:
    program = """
script.make("umask", 0o77, gives=None)
script.make("mkdirat", calls.AT_FDCWD, (given["folder"] + "/made").encode(), 0o777)
before = os.path.exists(given["folder"] + "/made")
script.run()
os.rmdir(given["folder"] + "/made")
script.run()
answer([before, oct(os.stat(given["folder"] + "/made").st_mode)])
"""
    assert ask(WRITE_DOWN + program, folder=str(tmp_path)) == [False, "0o40700"]


def test_descriptor_numbers_are_predicted() -> None:
    program = """
first, second = (script.open("openat", calls.AT_FDCWD, b"/dev/null", 0) for _ in range(2))
script.close(first)
third = script.open("openat", calls.AT_FDCWD, b"/proc/self/comm", 0)
script.run()
answer([[first, second, third], os.readlink("/proc/self/fd/%d" % third).endswith("/comm")])
"""
    assert ask(WRITE_DOWN + program) == [[3, 4, 3], True]


def test_a_descriptor_with_another_number_ends_the_run() -> None:
    program = """
script.layer = "files"
script.open("openat", calls.AT_FDCWD, b"/dev/null", 0, about="/dev/null")
os.open("/dev/null", 0)
try:
    script.run()
except OSError as error:
    answer([script.layer, error.errno, str(error)])
"""
    wall, number, message = ask(WRITE_DOWN + program)
    assert (wall, number) == ("files", errno.EINVAL)
    assert "openat /dev/null" in message


def test_the_first_call_that_fails_ends_the_run_and_is_named() -> None:
    program = """
script.layer = "before"
script.make("umask", 0o77, gives=None)
script.layer = "there"
script.make("chdir", b"/nothing", about="/nothing")
script.layer = "after"
script.make("umask", 0, gives=None)
os.umask(0o22)
try:
    script.run()
except OSError as error:
    answer([script.layer, error.errno, "chdir /nothing" in str(error), os.umask(0)])
"""
    assert ask(WRITE_DOWN + program) == ["there", errno.ENOENT, True, 0o77]


def test_an_error_that_does_not_matter_is_passed_over() -> None:
    program = """
script.write_file("/proc/nothing", "8", unless=calls.ANY_ERROR)
script.make("umask", 0o77, gives=None)
script.run()
answer(os.umask(0))
"""
    assert ask(WRITE_DOWN + program) == 0o77


def test_an_immediate_call_names_its_subject_in_errors() -> None:
    program = """
try:
    calls.NOW.write_file("/proc/nothing", "8")
except OSError as error:
    answer([error.errno, "/proc/nothing" in str(error)])
"""
    assert ask(program) == [errno.ENOENT, True]
