"""What the clients are given, as the parts below them take it: a source or the path of its file, places, a backend."""

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

_MOST_SOURCE_FILE: Final = 6 << 20


def source_fields(source: Source | None) -> dict[str, Any]:
    """The fields of a spec that a source comes to: a file's own name goes with its text."""
    return {"source": _read_file(source), "filename": source.name} if isinstance(source, Path) else {"source": source}


def store_place(chosen: str | Path) -> Path:
    """Where environments are kept."""
    from sandbox.environments.disk.paths import named_place

    return named_place(chosen)


def lock_of(chosen: object) -> Lock | None:
    """That one, if any is given."""
    from sandbox.environments.lock import Lock

    if chosen is None or isinstance(chosen, Lock):
        return chosen
    remedy = "give what `lock()` returned, or read what was written down of it with `Lock.model_validate_json`"
    raise SpecError(f"the lock is a {type(chosen).__name__} instead of a Lock", remedy=remedy)


def store_of_artifacts(chosen: str | Path | ArtifactStore | None) -> ArtifactStore:
    """That one; nothing is made before there is something to keep."""
    if isinstance(chosen, ArtifactStore):
        return chosen
    return ArtifactStore(chosen)


def backend_of(chosen: str | Backend | None) -> Backend:
    """What was said; otherwise what is configured."""
    if isinstance(chosen, Backend):
        return chosen
    configuration = load_configuration()
    return open_backend(configuration.backend if chosen is None else chosen, configuration)


def _read_file(path: Path) -> bytes:
    """The file's bytes; a file that cannot be a tool's source is refused before it is read."""
    try:
        if not path.is_file():
            raise SpecError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
        if path.stat().st_size > _MOST_SOURCE_FILE:
            raise SpecError(f"{path} is {path.stat().st_size} bytes, too large for a tool's source")
        return path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from None
