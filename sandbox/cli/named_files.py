"""Files that are named on the command line: read and written here. What fails is the error of whoever named them."""

from __future__ import annotations

from pathlib import Path

from sandbox.errors import SpecError


def write_file(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write it; one that is there is replaced, unless it must not be."""
    try:
        with path.open("wb" if replace else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise SpecError(f"{path} is there already", remedy="name another file, or remove that one") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def read_file(path: Path, *, what: str, most: int) -> bytes:
    """Read a file that was named; `what` says what it is to be."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"{what}, {path}, cannot be read: {reason}") from None
    if len(content) > most:
        raise SpecError(f"{what}, {path}, holds more than {most} bytes")
    return content
