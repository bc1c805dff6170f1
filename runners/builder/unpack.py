"""Unpack wheels into a folder each, and compile what they hold, in a box that has no network at all.

Nothing of a wheel is executed here: uv unpacks it, and Python's compiler reads it. Bytecode names its files as a box
that uses them will see them, and is never checked against them again: the environment cannot change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

_COMPILE = """
import compileall, os, py_compile, sys
folder, seen_at = sys.argv[1:]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for path, folders, names in os.walk(folder):
    for name in names:
        if name.endswith(".py") and path != os.path.join(folder, "bin"):
            file = os.path.join(path, name)
            shown = seen_at + file[len(folder):]
            try:
                py_compile.compile(file, dfile=shown, doraise=True, invalidation_mode=mode, quiet=2)
            except (py_compile.PyCompileError, SyntaxError, ValueError, RecursionError, MemoryError):
                pass  # some packages ship files for other Pythons, or broken on purpose
"""


def unpack(packages: list[list[str]], folder: str, seen_at: str, workers: int) -> dict[str, object]:
    """`packages` are pairs of a folder's name and a requirement; what is made of each, or why it was not."""
    with ThreadPoolExecutor(workers) as pool:
        made = list(pool.map(lambda each: _unpack(*each, folder=folder, seen_at=seen_at), packages))
    return {
        "failed": {name: said for (name, _), (said, _, _) in zip(packages, made) if said},
        "unpack_s": round(sum(seconds for _, seconds, _ in made), 3),
        "compile_s": round(sum(seconds for _, _, seconds in made), 3),
    }


def _unpack(name: str, requirement: str, *, folder: str, seen_at: str) -> tuple[str, float, float]:
    target = os.path.join(folder, name)
    begun = time.monotonic()
    said = _run(
        "/uv", "pip", "install", "--no-config", "--offline", "--no-index", "--find-links", "/wheels", "--no-deps",
        "--no-build", "--quiet", "--color", "never", "--link-mode", "hardlink", "--python", "/environment/bin/python",
        "--target", target, "--cache-dir", os.path.join(folder, ".cache", name), requirement,
    )  # fmt: skip
    unpacked = time.monotonic()
    if not said:
        said = _run(sys.executable, "-I", "-S", "-B", "-c", _COMPILE, target, seen_at)
    shutil.rmtree(os.path.join(folder, ".cache", name), ignore_errors=True)
    sys.stdout.write(name + "\n")
    return said, unpacked - begun, time.monotonic() - unpacked


def _run(*command: str) -> str:
    """Nothing if it went well, else what it said."""
    ended = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
    )
    return "" if ended.returncode == 0 else ended.stderr[-4000:] or "it ended with code %d" % ended.returncode
