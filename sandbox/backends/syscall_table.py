"""Which number a system call has on which machine.

The numbers lie beside the profiles, in `policies/seccomp/syscalls.tsv`: one line for each name, one column for each
machine, `-` where a machine has no such call. They come from the kernel's own headers and never change; new calls are
added at the end, with the same number everywhere (since 424).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, get_args

from sandbox import resources

Machine = Literal["x86_64", "aarch64"]

MACHINES: Final[tuple[Machine, ...]] = get_args(Machine)


@lru_cache(maxsize=1)
def load_table() -> dict[Machine, dict[str, int]]:
    """Name to number for each machine; a name is missing where the machine has no such call."""
    lines = (resources.find_folder("policies") / "seccomp" / "syscalls.tsv").read_text("ascii").splitlines()
    columns = lines[0].split("\t")[1:]
    table: dict[Machine, dict[str, int]] = {machine: {} for machine in MACHINES}
    for line in lines[1:]:
        name, *numbers = line.split("\t")
        for machine in MACHINES:
            number = numbers[columns.index(machine)]
            if number != "-":
                table[machine][name] = int(number)
    return table


def known_names() -> frozenset[str]:
    """Every name that is a system call on at least one machine."""
    return frozenset(name for numbers in load_table().values() for name in numbers)
