"""Skeletons: what a virtual environment is before anything is installed, made by virtualenv once per interpreter.

An environment starts as a copy of one: a few links to the interpreter, the folders, and `pyvenv.cfg`. No installer is
put in (a box installs nothing) and nothing that starts with every interpreter.

    <kept in>/<digest of the interpreter>/
    ├── content/      the skeleton
    └── files         the list of its files, see `stock`: one that is not exactly that any more is made anew

virtualenv's result depends on nothing but the interpreter, as no setting of this machine is part of a key: the engine
passes all options, no variables and no configuration file, and imports virtualenv from its own path.

A kept skeleton has exact modes, whatever the umask: a box runs as another user and reads the copy, and a file that
others could write to would be their code in every environment. A skeleton with other modes is made again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandbox.environments.disk.complete_marker import FILES, write_whole
from sandbox.environments.disk.file_inventory import read_list, take_inventory, write_list
from sandbox.environments.disk.paths import make_folder, make_folders, remove, take_name
from sandbox.environments.interpreters.host import HostInterpreter, own_interpreter
from sandbox.errors import BuildFailed

_MAKING_S: Final = 60
_NOT_KEPT: Final = ("CACHEDIR.TAG", ".gitignore", "include", "lib64")
_OF_VIRTUALENV: Final = "_virtualenv.*"
_CONTENT: Final = "content"
_SETTINGS: Final = "pyvenv.cfg"
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_RUN_MODULE: Final = """
import runpy, sys
from json import loads
sys.path += [place for place in loads(sys.argv.pop(1)) if place not in sys.path]
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
_VARIABLES: Final = {"PATH": os.defpath, "HOME": os.devnull, "VIRTUALENV_CONFIG_FILE": os.devnull, "LC_ALL": "C.UTF-8"}


def site_folder(interpreter: HostInterpreter) -> str:
    """Where an environment keeps its packages, as a path below its own folder."""
    return f"lib/python{'.'.join(interpreter.version.split('.')[:2])}/site-packages"


def begin_skeleton(interpreter: HostInterpreter, folder: Path) -> None:
    """Make that folder what installers take for a virtual environment: its interpreter, where that is from, and a place
    for packages, as virtualenv makes them. The rest comes when virtualenv has."""
    make_folders(folder / site_folder(interpreter), _FOLDER_MODE)
    make_folder(folder / "bin", _FOLDER_MODE)
    (folder / "bin" / "python").symlink_to(interpreter.python)
    settings = folder / _SETTINGS
    settings.write_text(_settings_of(interpreter))
    settings.chmod(_FILE_MODE)


def finish_skeleton(interpreter: HostInterpreter, folder: Path, *, kept_in: Path, aside: Path) -> None:
    """Complete a skeleton that was begun. Readers find the old content meanwhile, because the new one is
    made aside. Raises as `make_skeleton` does."""
    make_skeleton(interpreter, kept_in=kept_in, folder=aside)
    for path in _parts(aside):
        if path.is_dir():
            make_folders(folder / path.relative_to(aside), _FOLDER_MODE)
    for path in [path for path in aside.rglob("*") if path.is_symlink() or not path.is_dir()]:
        path.replace(folder / path.relative_to(aside))


def make_skeleton(interpreter: HostInterpreter, *, kept_in: Path, folder: Path) -> None:
    """Make `folder` a virtual environment with nothing installed; a copy of the one kept for this interpreter. Raises
    `BuildFailed`, and `OSError` where the disk is to blame."""
    kept = _place(interpreter, kept_in)
    if not _is_whole(kept):
        _make(interpreter, folder)
        _give_modes(folder)
        _keep(folder, kept)
        return
    shutil.copytree(kept / _CONTENT, folder, symlinks=True, dirs_exist_ok=True)


def is_kept(interpreter: HostInterpreter, *, kept_in: Path) -> bool:
    """Whether there is one for this interpreter."""
    return _is_whole(_place(interpreter, kept_in))


def _place(interpreter: HostInterpreter, kept_in: Path) -> Path:
    return kept_in / interpreter.digest[:32]


def _is_whole(kept: Path) -> bool:
    """Whether it is exactly as it was kept, and no other user could have changed it."""
    content = kept / _CONTENT
    try:
        listed = read_list((kept / FILES).read_text())
        have_modes = all(stat.S_IMODE(path.lstat().st_mode) == _mode(path) for path in _parts(content))
        return bool(listed) and have_modes and take_inventory(content).files == listed
    except (OSError, ValueError):
        return False


def _give_modes(folder: Path) -> None:
    for path in _parts(folder):
        path.chmod(_mode(path))


def _parts(folder: Path) -> Iterator[Path]:
    """The folder, and all below it that has a mode of its own."""
    return (path for path in (folder, *folder.rglob("*")) if not path.is_symlink())


def _mode(path: Path) -> int:
    """The one it should have."""
    return _FOLDER_MODE if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else _FILE_MODE


def _make(interpreter: HostInterpreter, folder: Path) -> None:
    """In a process of its own: virtualenv asks the interpreter about itself and keeps what it learns for itself. On
    the engine's own interpreter it needs not ask. That process is isolated, so this one passes on where it finds
    modules: for its user alone, or by PYTHONPATH."""
    options = ["--no-seed", "--no-periodic-update", "--activators", "", "--no-vcs-ignore"]
    places = ["--app-data", f"{folder}.app", "--python", str(interpreter.python), str(folder)]
    found_in = json.dumps([place for place in sys.path if os.path.isabs(place)])
    python = interpreter.python if interpreter == own_interpreter() else sys.executable
    command = [str(python), "-I", "-S", "-B", "-c", _RUN_MODULE, found_in, "virtualenv", *options, *places]
    try:
        subprocess.run(
            command,
            check=True,
            env=_VARIABLES,
            stdin=subprocess.DEVNULL,
            timeout=_MAKING_S,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except (subprocess.SubprocessError, OSError) as error:
        said = [getattr(error, name, None) or "" for name in ("stdout", "stderr")]  # virtualenv complains on stdout
        raise _failure(interpreter, "".join(said) or str(error)) from None
    finally:
        shutil.rmtree(f"{folder}.app", ignore_errors=True)
    _strip(folder, interpreter)


def _failure(interpreter: HostInterpreter, said: str) -> Exception:
    """Raise `OSError` for a disk without room, like a write of our own."""
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
    (folder / _SETTINGS).write_text(_settings_of(interpreter))


def _settings_of(interpreter: HostInterpreter) -> str:
    lines = [f"home = {interpreter.python.parent}", "include-system-site-packages = false"]
    return "\n".join([*lines, f"version = {interpreter.version}", ""])


def _keep(folder: Path, kept: Path) -> None:
    """Keep a copy for the next build; the first wins, and all are equal. A damaged copy is replaced."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside, broken = folder.with_name(f"{folder.name}.kept"), folder.with_name(f"{folder.name}.broken")
    aside.mkdir(mode=0o700)
    shutil.copytree(folder, aside / _CONTENT, symlinks=True)
    write_whole(aside / FILES, write_list(take_inventory(aside / _CONTENT).files).encode())
    while not take_name(aside, kept):
        if _is_whole(kept):
            remove(aside)
            return
        with suppress(FileNotFoundError):
            kept.rename(broken)
            remove(broken)
