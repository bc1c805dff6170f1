"""`--save-artifacts DIR`: what a call left, as files of this host, in the folders that the tool made for them.

The names come from a tool. They are relative and stay below the folder, which the engine has checked; here no link is
followed on the way either, and a file that is there is left alone, unless it is to be replaced. Whoever asks for files
counts on them: a folder that takes none is refused before the call, and what could not be saved after it is a warning
of the outcome and an exit code other than 0.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from sandbox.cli.escape import one_line
from sandbox.errors import ArtifactsUnavailable, SandboxError, SpecError

if TYPE_CHECKING:
    from sandbox.outcome import Artifact, Outcome
    from sandbox.outputs.artifacts.reading import Artifacts


def refuse_unusable(folder: Path) -> None:
    """Make the folder; raises `SpecError` when no file can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise SpecError(
            f"--save-artifacts {str(folder)!r}: nothing can be saved there: {reason}",
            remedy="name a folder that you may write to",
        ) from None


def save_all(outcome: Outcome, kept: Artifacts, folder: Path, *, tenant: str, replace: bool) -> tuple[Outcome, int]:
    """Save every artifact of that call: the outcome, with a warning for each that cannot be, and the exit code."""
    names: set[str] = set()
    errors: dict[str, SandboxError] = {}
    for artifact in outcome.artifacts:
        path = _own_name(artifact, names)
        try:
            kept.save(artifact.id, _place(path, folder), replace=replace, tenant=tenant)
        except SandboxError as error:
            errors[path] = error
    warnings = (*outcome.warnings, *(f"not saved: {one_line(path)}: {error}" for path, error in errors.items()))
    codes = [outcome.exit_code, *(error.exit_code for error in errors.values())]
    if _was_not_kept(outcome):
        codes.append(ArtifactsUnavailable.exit_code)
    return outcome.model_copy(update={"warnings": warnings}), next(filter(None, codes), 0)


def _was_not_kept(outcome: Outcome) -> bool:
    """Whether something of it never came into the store, which the outcome tells: a file, or an output too long to show
    of which nothing more is there."""
    outputs = (outcome.stdout, outcome.stderr, outcome.shaped_value)
    return any(file.is_lost for file in outcome.refused) or any(
        output.truncated and output.artifact is None for output in outputs
    )


def _own_name(artifact: Artifact, taken: set[str]) -> str:
    """Its name; with its id where a tool's own file is called like what is kept of its output."""
    name = artifact.name
    if name in taken:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem or suffix}-{artifact.id[:8]}{dot if stem else ''}{suffix if stem else ''}"
    taken.add(name)
    return name


def _place(path: str, folder: Path) -> Path:
    """Where the file is made, in folders that are none of them links."""
    *parents, name = path.split("/")
    try:
        for parent in parents:
            folder /= parent
            if folder.is_symlink():
                raise SpecError(f"{folder} is a link, and leads elsewhere")
            folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SpecError(f"{folder} cannot be made: {error.strerror}") from None
    return folder / name
