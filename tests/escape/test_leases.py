"""Attack: ask the kernel for a lease on a shown file, so that other programs wait or signal the tool when they open it.

A lease breaks only after /proc/sys/fs/lease-break-time, 45 seconds by default. Without root the interpreter and the
store belong to the engine's user, whom the kernel lets take leases on them, so a lease would hold up every other box.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.escape.attempts import ATTEMPT
from tests.escape.container_engines import KEPT, SINGLE_USE, Besieged, box, opened, variants
from tests.escape.engines import Engine

__all__ = ["box", "opened"]

LEASES: Final = f"""{ATTEMPT}
import fcntl, json, struct, sys, sysconfig

F_SETDELEG = 1040  # Linux 6.19
COMMANDS = {{
    "lease": (fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "notice": (fcntl.F_NOTIFY, fcntl.DN_MODIFY | fcntl.DN_MULTISHOT),
    "delegation": (F_SETDELEG, struct.pack("=IHH", 0, fcntl.F_RDLCK, 0)),
}}

def ask(path: str, command: int, argument) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, command, argument)
    finally:
        os.close(descriptor)

def ask_behind_a_full_register(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.fcntl(descriptor, ctypes.c_long(1 << 32 | fcntl.F_SETLEASE), fcntl.F_RDLCK) < 0:
            raise OSError(ctypes.get_errno(), "")
    finally:
        os.close(descriptor)

def tool() -> dict:
    library = sysconfig.get_paths()["stdlib"]
    shown = [os.path.realpath(sys.executable), json.__file__, library, "/bin/sh", __file__]
    found = {{f"{{name}} on {{path}}": attempt(ask, path, *rest) for path in shown for name, rest in COMMANDS.items()}}
    found["a full register"] = attempt(ask_behind_a_full_register, json.__file__)
    return found
"""


def test_no_lease_on_any_file_is_granted(engine: Engine) -> None:
    answers = engine.value(LEASES)
    assert {name: answer for name, answer in answers.items() if answer != "EPERM"} == {}


@pytest.mark.slow
@pytest.mark.root
@variants(KEPT, SINGLE_USE)
def test_no_lease_on_any_file_is_granted_in_containers(box: Besieged) -> None:
    answers = box.value(LEASES)
    assert {name: answer for name, answer in answers.items() if answer != "EPERM"} == {}
