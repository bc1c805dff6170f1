"""The inputs of the clients in the form that the engine takes: sources, folders, locks and backends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends import open_backend
from sandbox.backends.base import Backend
from sandbox.config import load_configuration
from sandbox.errors import SpecError
from sandbox.outputs.artifacts.store import ArtifactStore

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock

Source = str | bytes | Path
"""A tool's text, or the path of its file."""

_MAX_SOURCE_FILE: Final = 6 << 20


def source_fields(source: Source | None) -> dict[str, Any]:
    """Return the fields of a spec for a source. The text of a file comes with the file's name."""
    return {"source": _read_file(source), "filename": source.name} if isinstance(source, Path) else {"source": source}


def store_place(chosen: str | Path) -> Path:
    """Return the folder for environments."""
    from sandbox.environments.disk.paths import named_place

    return named_place(chosen)


def lock_of(chosen: object) -> Lock | None:
    """Return the lock, or None. Raise `SpecError` for anything else."""
    from sandbox.environments.lock import Lock

    if chosen is None or isinstance(chosen, Lock):
        return chosen
    remedy = "pass the result of `lock()`, or read its JSON with `Lock.model_validate_json`"
    raise SpecError(f"lock must be a Lock, not {type(chosen).__name__}", remedy=remedy)


def store_of_artifacts(chosen: str | Path | ArtifactStore | None) -> ArtifactStore:
    """Return the artifact store. Its folder is made when there is something to keep."""
    if isinstance(chosen, ArtifactStore):
        return chosen
    return ArtifactStore(chosen)


def backend_of(chosen: str | Backend | None) -> Backend:
    """Return the chosen backend, by default the configured one."""
    if isinstance(chosen, Backend):
        return chosen
    configuration = load_configuration()
    return open_backend(configuration.backend if chosen is None else chosen, configuration)


def _read_file(path: Path) -> bytes:
    """Return the bytes of a file. A file that cannot be a tool's source is refused before it is read."""
    try:
        if not path.is_file():
            raise SpecError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
        if path.stat().st_size > _MAX_SOURCE_FILE:
            raise SpecError(f"{path} is {path.stat().st_size} bytes, too large for a tool's source")
        return path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from None
