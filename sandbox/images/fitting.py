"""Whether an environment would work with the Python of an image, which is not the one that it was built for.

Compiled modules fit one implementation, version and set of flags, on one kind of processor; patch releases do not
matter. They were chosen for a C library's version and work with later ones. Bytecode goes by the same version.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sandbox.errors import EnvironmentUnavailable
from sandbox.images.built import read_facts
from sandbox.images.image_python import UNKNOWN, ImagePython

_TAG: Final = re.compile(r"(?P<abi>[^-]+)-(?P<platform>[^-]+)(?:-(?P<libc>musl|glibc)(?P<version>[0-9.]*))?")


def see_that_it_fits(installed: Path, python: ImagePython, *, base: str) -> None:
    """Raise `EnvironmentUnavailable` when the environment in that folder of a store was built for another Python."""
    tag = read_facts(installed).lock.interpreter
    if not fits(tag, python):
        raise EnvironmentUnavailable(
            f"the environment is built for {tag}, and the Python of the image {base} is {python}",
            remedy="run the engine, or have the tool ask for, the Python version that the image has",
        )


def fits(tag: str, python: ImagePython) -> bool:
    """Whether what was built for interpreters with that tag works with this one."""
    wanted = _TAG.fullmatch(tag)
    if wanted is None or python == UNKNOWN:
        return False
    if (wanted["abi"], wanted["platform"]) != (python.abi, python.platform):
        return False
    if wanted["libc"] != "glibc":
        return (wanted["libc"] or "musl") == "musl" and not python.glibc
    return bool(python.glibc) and _numbers(python.glibc) >= _numbers(wanted["version"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)
