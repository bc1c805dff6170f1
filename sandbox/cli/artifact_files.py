"""`--save-artifacts DIR`: what a call left, as files of this host, in the folders that the tool made for them.

The names come from a tool. They are relative and stay below the folder, which the engine has checked; here no link is
followed on the way either, and a file that is there is left alone and told of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.cli.terminal import tell
from sandbox.cli.visible import one_line
from sandbox.errors import SandboxError, SpecError

if TYPE_CHECKING:
    from sandbox.outcome import Artifact, Outcome
    from sandbox.outputs.artifacts.reading import Artifacts


def save_all(outcome: Outcome, kept: Artifacts, folder: Path, *, tenant: str) -> None:
    """Save every artifact of that call; one that cannot be saved is told of, and the rest are."""
    names: set[str] = set()
    for artifact in outcome.artifacts:
        try:
            _save(artifact, _own_name(artifact, names), kept, folder, tenant=tenant)
        except SandboxError as error:
            tell(f"not saved: {one_line(artifact.name)}: {error}\n")


def _own_name(artifact: Artifact, taken: set[str]) -> str:
    """Its name; with its id where a tool's own file is called like what is kept of its output."""
    name = artifact.name
    if name in taken:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem or suffix}-{artifact.id[:8]}{dot if stem else ''}{suffix if stem else ''}"
    taken.add(name)
    return name


def _save(artifact: Artifact, path: str, kept: Artifacts, folder: Path, *, tenant: str) -> None:
    *parents, name = path.split("/")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for parent in parents:
            folder /= parent
            if folder.is_symlink():
                raise SpecError(f"{folder} is a link, and leads elsewhere")
            folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SpecError(f"{folder} cannot be made: {error.strerror}") from None
    kept.save(artifact.id, folder / name, tenant=tenant)
