"""What an environment is, as far as an image needs to know: out of the manifest that a store keeps beside its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.errors import EnvironmentUnavailable

_MANIFEST: Final = "manifest.json"


class LockFacts(BaseModel):
    """Of its lock."""

    model_config = ConfigDict(frozen=True)

    interpreter: Annotated[str, Field(max_length=128)]
    """What it was built for, such as `cp311-linux_x86_64-glibc2.36`."""


class BuiltFacts(BaseModel):
    """Of its manifest."""

    model_config = ConfigDict(frozen=True)

    lock: LockFacts
    files: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of the list of its files."""


def read_facts(installed: Path) -> BuiltFacts:
    """Of the environment in that folder of a store; `EnvironmentUnavailable` when it is not there."""
    try:
        return BuiltFacts.model_validate_json((installed.parent / _MANIFEST).read_bytes())
    except (OSError, ValidationError) as error:
        raise EnvironmentUnavailable(
            f"the environment in {installed} is not one of a store, or is gone from it",
            remedy="build it again with `sandbox env build`",
        ) from error
