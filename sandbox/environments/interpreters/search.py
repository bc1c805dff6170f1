"""Where interpreters may be on this host, which of them may be run, and what they say when they are.

To learn what an interpreter is one must run it, as the user that the engine is. Whatever another user could have put
there is therefore not run: the file and every folder above it belong to us or to root, and are not open to all.
Launchers, such as pyenv's shims, are scripts and are not run either: what they would start is looked for itself.

Nothing here trusts an interpreter to work. An interpreter gets a few seconds, no environment, no input, and its own
process group, which is killed when it has answered or has not. Who answered is remembered for as long as its file stays
as it is; who did not is asked again after some minutes, since the machine may just have been busy.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.environments.interpreters import facts

PATIENCE_SECONDS: Final = 5.0
_ASKED_AGAIN_SECONDS: Final = 600
_MAX_ANSWER: Final = 64 * 1024
_MAX_CANDIDATES: Final = 64
_FILE_NAME: Final = re.compile(r"python(3(\.[0-9]{1,2})?t?)?")

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]*$", max_length=64)]
_Folder = Annotated[str, Field(pattern=r"^/", max_length=4096)]
_Folders = Annotated[tuple[_Folder, ...], Field(max_length=64)]


class Mute(Exception):
    """The interpreter did not state its facts; the text says why."""


class Facts(BaseModel):
    """The facts that an interpreter states, see `facts`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    implementation: _Word
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$", max_length=32)]
    build: Annotated[str, Field(max_length=1000)]
    flags: Annotated[str, Field(pattern=r"^[a-z]*$", max_length=8)]
    platform: _Word
    machine: _Word
    bits: int
    libc: _Word
    folders: _Folders
    hidden: _Folders


def candidates() -> list[Path]:
    """The files that may be interpreters, links resolved, each once."""
    found: dict[Path, None] = {}
    for folder in _places():
        for path in _named_like_one(folder):
            if path not in found and not _is_script(path):
                found[path] = None
    return list(found)[:_MAX_CANDIDATES]


def why_not_to_run(python: Path) -> str | None:
    """Return the reason not to run this file, if there is one."""
    try:
        mode = python.stat().st_mode
        if not stat.S_ISREG(mode) or not os.access(python, os.X_OK):
            return "is not an executable file"
        exposed = next((place for place in (python, *python.parents) if _others_can_write(place)), None)
    except OSError as error:
        return str(error.strerror)
    return f"could have been written by others: {exposed}" if exposed else None


def ask(python: Path) -> Facts:
    """Return the facts of this interpreter, which runs once as long as its file does not change; raises `Mute`."""
    try:
        found = python.stat()
    except OSError as error:
        raise Mute(str(error.strerror)) from None
    period = int(time.monotonic() // _ASKED_AGAIN_SECONDS)
    answer = _answer_or_reason(python, found.st_mtime_ns, found.st_size, period)
    if isinstance(answer, str):
        raise Mute(answer)
    return answer


@lru_cache(maxsize=256)
def _answer_or_reason(python: Path, modified: int, size: int, period: int) -> Facts | str:
    del period  # when it passes, who did not answer is asked again
    try:
        return _answer(python, modified, size)
    except Mute as error:
        return str(error)


@lru_cache(maxsize=256)
def _answer(python: Path, modified: int, size: int) -> Facts:
    del modified, size  # when they change, it is another interpreter
    return run(python, patience_seconds=PATIENCE_SECONDS)


def run(python: Path, *, patience_seconds: float) -> Facts:
    """Run it now, and read what it says; raises `Mute`. Nothing of it is left running."""
    command = [str(python), "-I", "-S", "-B", facts.__file__]
    try:
        process = subprocess.Popen(
            command,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise Mute(f"cannot be started: {error}"[:200]) from None
    assert process.stdout is not None
    with process.stdout as pipe:
        try:
            said = _read(pipe.fileno(), deadline=time.monotonic() + patience_seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):  # not reaped yet, so its number is still its own
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return _read_facts(said)


def _read_facts(said: bytes) -> Facts:
    try:
        return Facts.model_validate_json(said)
    except ValidationError:
        raise Mute("does not answer as an interpreter does" if said else "fails at once") from None


def _read(pipe: int, *, deadline: float) -> bytes:
    """All that comes before it closes its end."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(said) <= _MAX_ANSWER:
            if not selector.select(max(deadline - time.monotonic(), 0)):
                raise Mute("did not answer in time")
            piece = os.read(pipe, _MAX_ANSWER)
            if not piece:
                return said
            said += piece
    raise Mute("says more than was asked")


def _places() -> Iterator[Path]:
    """Folders to look in; those that a shim stands for come where the shim would have."""
    home = Path(os.path.expanduser("~"))
    yield Path(os.path.realpath(sys.base_prefix), "bin")
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(entry):  # an empty or relative one means the working directory
            yield Path(entry)
            if Path(entry).name == "shims":
                yield from _below(Path(entry).parent / "versions")
    yield from _below(home / ".pyenv" / "versions")
    yield from _below(home / ".local" / "share" / "uv" / "python")
    yield from (Path("/usr/local/bin"), Path("/usr/bin"))


def _below(versions: Path) -> list[Path]:
    try:
        return sorted(version / "bin" for version in versions.iterdir())
    except OSError:
        return []


def _named_like_one(folder: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if _FILE_NAME.fullmatch(name))
    except (OSError, ValueError):
        return []
    return [Path(os.path.realpath(folder / name)) for name in names]


def _is_script(python: Path) -> bool:
    try:
        file = os.open(python, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block
    except OSError:
        return False
    try:
        return os.read(file, 2) == b"#!"
    except OSError:
        return False
    finally:
        os.close(file)


def _others_can_write(place: Path) -> bool:
    found = place.stat()
    is_shared = bool(found.st_mode & stat.S_IWOTH) and not (place.is_dir() and found.st_mode & stat.S_ISVTX)
    return is_shared or found.st_uid not in (0, os.geteuid())
