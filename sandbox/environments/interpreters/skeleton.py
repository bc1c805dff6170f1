"""Skeletons: what a virtual environment is before anything is installed, made by virtualenv once per interpreter.

An environment starts as a copy of one: a few links to the interpreter, the folders, and `pyvenv.cfg`. No installer is
put in (nobody in a box installs anything) and nothing that starts with every interpreter.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from sandbox.environments.interpreters.host import HostInterpreter
from sandbox.errors import BuildFailed

_MAKING_S: Final = 60
_NOT_KEPT: Final = ("CACHEDIR.TAG", ".gitignore", "include", "lib64")
_OF_VIRTUALENV: Final = "_virtualenv.*"


def site_folder(interpreter: HostInterpreter) -> str:
    """Where an environment keeps its packages, as a path below its own folder."""
    return f"lib/python{'.'.join(interpreter.version.split('.')[:2])}/site-packages"


def make_skeleton(interpreter: HostInterpreter, *, kept_in: Path, folder: Path) -> None:
    """Make `folder` a virtual environment with nothing installed; a copy of the one kept for this interpreter. Raises
    `BuildFailed`, and `OSError` where the disk is to blame."""
    kept = _place(interpreter, kept_in)
    if not kept.is_dir():
        _make(interpreter, folder)
        _keep(folder, kept)
        return
    shutil.copytree(kept, folder, symlinks=True, dirs_exist_ok=True)


def is_kept(interpreter: HostInterpreter, *, kept_in: Path) -> bool:
    """Whether there is one for this interpreter."""
    return _place(interpreter, kept_in).is_dir()


def _place(interpreter: HostInterpreter, kept_in: Path) -> Path:
    return kept_in / interpreter.digest[:32]


def _make(interpreter: HostInterpreter, folder: Path) -> None:
    """In a process of its own: virtualenv asks the interpreter about itself and keeps what it learns for itself."""
    options = ["--no-seed", "--no-periodic-update", "--activators", "", "--no-vcs-ignore"]
    places = ["--app-data", f"{folder}.app", "--python", str(interpreter.python), str(folder)]
    command = [sys.executable, "-I", "-m", "virtualenv", *options, *places]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_MAKING_S, stdin=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError) as error:
        said = [getattr(error, name, None) or "" for name in ("stdout", "stderr")]  # virtualenv complains on stdout
        raise _failure(interpreter, "".join(said) or str(error)) from None
    finally:
        shutil.rmtree(f"{folder}.app", ignore_errors=True)
    _strip(folder, interpreter)


def _failure(interpreter: HostInterpreter, said: str) -> Exception:
    """A disk without room is told like any write of our own that fails."""
    for number in (errno.ENOSPC, errno.EDQUOT):
        if os.strerror(number) in said:
            return OSError(number, os.strerror(number))
    return BuildFailed(f"no virtual environment could be made for {interpreter.python}: {said[-500:]}")


def _strip(folder: Path, interpreter: HostInterpreter) -> None:
    for name in _NOT_KEPT:
        place = folder / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    for place in (folder / site_folder(interpreter)).glob(_OF_VIRTUALENV):
        place.unlink()
    lines = [f"home = {interpreter.python.parent}", "include-system-site-packages = false"]
    (folder / "pyvenv.cfg").write_text("\n".join([*lines, f"version = {interpreter.version}", ""]))


def _keep(folder: Path, kept: Path) -> None:
    """A copy for the next; whoever is first wins, and all of them are equal."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(folder.name + ".kept")
    shutil.copytree(folder, aside, symlinks=True)
    try:
        aside.rename(kept)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
