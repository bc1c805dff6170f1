"""A manifest: what an environment was made from, and what it consists of."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from sandbox.environments.lock import Lock

ENVIRONMENT_FORMAT: Final = 1

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """The facts of an environment, next to the list of its files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = ENVIRONMENT_FORMAT
    key: Digest
    lock: Lock
    interpreter: dict[str, str]
    """The interpreter's facts, as far as they are part of the key, and its path."""
    created: AwareDatetime
    builder: str
    """The digest of what built it."""
    files: Digest
    """The digest of the list of files."""
    trees: tuple[Digest, ...]
    """The keys of the package trees it was linked from."""
    modules: tuple[str, ...]
    """The names that can be imported from it, at the top level."""
    pth: bool
    """Whether packages run code of theirs whenever the interpreter starts."""
    bytes_total: Annotated[int, Field(ge=0)]
    """The bytes that it would take up alone."""
    bytes_own: Annotated[int, Field(ge=0)]
    """The bytes that it shares with no other environment."""
