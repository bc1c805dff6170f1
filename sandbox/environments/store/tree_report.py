"""The facts of a package tree: one wheel, unpacked and compiled, verified, and the engine's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from sandbox.environments.disk.file_inventory import StoredFile

TREE_FORMAT: Final = 1
TREE_DOCUMENT: Final = "tree.json"


class TreeFacts(BaseModel):
    """The facts of a tree, next to the list of its files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = TREE_FORMAT
    name: str
    version: str
    wheel: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The SHA-256 of the wheel it was unpacked from."""
    modules: tuple[str, ...]
    """The names that can be imported from it, at the top level."""
    has_path_files: bool
    """Whether it has `.pth` files, which run code whenever the interpreter starts."""
    prefix_files: tuple[str, ...]
    """Files that belong next to `lib`: scripts in `bin`, and such as manual pages; the others are modules."""
    bytes_on_disk: Annotated[int, Field(ge=0)]
    files: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of the list of files."""


@dataclass(frozen=True, slots=True)
class TreeReport:
    """A tree: where it is, what it is, and every file of it."""

    folder: Path
    facts: TreeFacts
    files: tuple[StoredFile, ...]
