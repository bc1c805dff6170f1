"""The shipped filters, compiled for this machine, and the lines by which a program installs them."""

from __future__ import annotations

import os
from functools import cache
from typing import Final

from sandbox.backends.seccomp import compile_profile
from sandbox.backends.seccomp_profiles import MACHINES, Machine, Sockets, load_profile

MACHINE: Final[Machine] = next(machine for machine in MACHINES if machine == os.uname().machine)

# The first lines of a program that was given `filters`.
WITH_THE_FILTER: Final = """
capabilities.forbid_new_privileges()
for program in given["filters"]:
    seccomp.install(bytes.fromhex(program))
"""


@cache
def filter_of(name: str, sockets: Sockets = Sockets.INTERNET) -> str:
    return compile_profile(load_profile(name), machine=MACHINE, sockets=sockets).hex()
