"""Skeletons: what a virtual environment is before anything is installed.

It is three links to the interpreter, one folder, and `pyvenv.cfg`: no installer (nobody in a box installs anything),
nothing that starts with every interpreter, and nothing to activate. That is why no tool is asked to make it: virtualenv
takes 0.3 to 0.4 s of a processor, as much as unpacking numpy and pandas, and nearly all that it makes would have to be
taken out again.
"""

from __future__ import annotations

from pathlib import Path

from sandbox.environments.interpreters import HostInterpreter


def site_folder(interpreter: HostInterpreter) -> str:
    """Where an environment keeps its packages, as a path below its own folder."""
    return f"lib/python{_short(interpreter)}/site-packages"


def make_skeleton(interpreter: HostInterpreter, folder: Path) -> None:
    """Make `folder` a virtual environment with nothing installed."""
    (folder / site_folder(interpreter)).mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(interpreter.python)
    for name in ("python3", f"python{_short(interpreter)}"):
        (folder / "bin" / name).symlink_to("python")
    lines = [f"home = {interpreter.python.parent}", "include-system-site-packages = false"]
    (folder / "pyvenv.cfg").write_text("\n".join([*lines, f"version = {interpreter.version}", ""]))


def _short(interpreter: HostInterpreter) -> str:
    return ".".join(interpreter.version.split(".")[:2])
