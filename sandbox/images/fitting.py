"""Facts about a built environment, and whether it works with the Python of an image.

Compiled modules fit one implementation, version and set of flags, on one kind of processor; patch releases do not
matter. A module that was chosen for a version of the C library works with later ones. Bytecode depends on the same
version.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.errors import EnvironmentUnavailable
from sandbox.images.image_python import UNKNOWN, ImagePython

_MANIFEST: Final = "manifest.json"
_TAG: Final = re.compile(r"(?P<abi>[^-]+)-(?P<platform>[^-]+)(?:-(?P<libc>musl|glibc)(?P<version>[0-9.]*))?")


class LockFacts(BaseModel):
    """The facts in an environment's lock."""

    model_config = ConfigDict(frozen=True)

    interpreter: Annotated[str, Field(max_length=128)]
    """The interpreter that the environment was built for, such as `cp311-linux_x86_64-glibc2.36`."""


class BuiltFacts(BaseModel):
    """The facts in an environment's manifest."""

    model_config = ConfigDict(frozen=True)

    lock: LockFacts
    files: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of the list of its files."""


def read_facts(installed: Path) -> BuiltFacts:
    """Return the facts about the environment in that folder; raise `EnvironmentUnavailable` if it is gone."""
    try:
        return BuiltFacts.model_validate_json((installed.parent / _MANIFEST).read_bytes())
    except (OSError, ValidationError) as error:
        raise EnvironmentUnavailable(
            f"the environment in {installed} is not one of a store, or is gone from it",
            remedy="build it again with `sandbox env build`",
        ) from error


def check_fit(installed: Path, python: ImagePython, *, base: str) -> None:
    """Raise `EnvironmentUnavailable` if the environment in that folder of a store was built for another Python."""
    tag = read_facts(installed).lock.interpreter
    if not fits(tag, python):
        raise EnvironmentUnavailable(
            f"the environment is built for {tag}, and the Python of the image {base} is {python}",
            remedy="run the engine with the image's Python version, or require that version in the tool",
        )


def fits(tag: str, python: ImagePython) -> bool:
    """Return whether an environment for interpreters with that tag works with this one."""
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
