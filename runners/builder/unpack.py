"""Unpack wheels into a folder each, and compile what they hold, in a box that has no network at all.

No code of a wheel is executed here: uv unpacks the wheel, and Python's compiler reads it. Bytecode names its files by
their paths in a box that uses them, and is never checked against them again: the environment cannot change.

A file next to the wheels lists the packages, and may appear after this program has begun. Wheels may appear while
others are unpacked: the engine shows each as soon as it is complete and verified. uv's cache holds the same files under
other names, which are removed while Python compiles.

Progress goes to stdout, a line each time: `unpacked NAME`, then `compile COUNT`, then `compiled COUNT` for each further
part of those.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source

_WHEELS = "/wheels"
_ORDER = "/wheels/order.json"
_PYTHON = "/environment/bin/python"
_LOOK_S = 0.005
_COMPILE = """
import errno, gc, os, py_compile, sys
gc.disable()  # a collection would walk through all compiled code again and again
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
paths = iter(os.fsdecode(sys.stdin.buffer.read()).split("\\0")[:-1])
begun = 0
for file, shown in zip(paths, paths):
    if begun == 32:
        os.write(1, b"compiled 32\\n")
        begun = 0
    begun += 1
    try:
        py_compile.compile(file, dfile=shown, doraise=True, invalidation_mode=mode, quiet=2)
    except (py_compile.PyCompileError, SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # some packages ship files for other Pythons, or broken on purpose
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # the name of the bytecode is longer; the module works without
            sys.exit("%s: %s" % (shown, error.strerror or error))
"""
_EACH = 1000
"""The fixed cost of a file, in bytes that could be compiled instead."""
_LEFT_OUT = "tests"
"""The tests of packages are more than half of numpy and pandas, and tools do not import them. A tool that does has them
compiled at that moment."""


class _Wheels:
    """The packages that are not unpacked yet, preferred ones first; wheels appear one by one."""

    def __init__(self, packages: list[list[str]]) -> None:
        self._left = list(packages)
        self._lock = threading.Lock()

    def take(self) -> list[str] | None:
        """Wait for the next package with a wheel, and return it; None when all were taken."""
        with self._lock:
            while self._left:
                there = set(os.listdir(_WHEELS))
                for package in self._left:
                    if package[2] in there:
                        self._left.remove(package)
                        return package
                time.sleep(_LOOK_S)
        return None


def unpack(folder: str, seen_at: str, workers: int) -> dict[str, object]:
    """Unpack and compile all ordered packages; return the failures, and how long both steps took."""
    cache = os.path.join(folder, ".cache")
    packages = _read_order()
    if not packages or packages[0][2] not in os.listdir(_WHEELS):
        _learn_about_python(cache)
    while packages is None:
        time.sleep(_LOOK_S)
        packages = _read_order()
    begun = time.monotonic()
    said: dict[str, str] = {}
    wheels = _Wheels(packages)
    removing = threading.Thread(target=shutil.rmtree, args=(cache,), kwargs={"ignore_errors": True})
    with ThreadPoolExecutor(workers) as pool:
        for ended in [pool.submit(_unpack_all, wheels, folder, cache, said) for _ in range(workers)]:
            ended.result()
        unpacked = time.monotonic()
        removing.start()
        failed = {name: said[name] for name, _, _ in packages if said[name]}
        if not failed:
            sources = [source for name, _, _ in packages for source in _sources(os.path.join(folder, name), seen_at)]
            _report("compile", len(sources))
            problems = [text for text in pool.map(_compile, _divide(sources, workers)) if text]
            failed = {"bytecode": problems[0]} if problems else _unusable(packages, folder)
        removing.join()
    return {
        "failed": failed,
        "unpack_s": round(unpacked - begun, 3),
        "compile_s": round(time.monotonic() - unpacked, 3),
    }


def _read_order() -> list[list[str]] | None:
    """Return a folder's name, a requirement, and the name of a wheel for each package; None before the list exists.

    The wheel may appear later.
    """
    try:
        with open(_ORDER, encoding="utf-8") as file:
            ordered: list[list[str]] = json.load(file)
            return ordered
    except FileNotFoundError:
        return None


def _learn_about_python(cache: str) -> None:
    """Have uv examine the interpreter, which takes longer than a small wheel, and cache the result.

    This fills the time before the first wheel. If the largest wheel is already there, the workers examine the
    interpreter in parallel, which saves a process.
    """
    _run("/uv", "python", "find", "--no-config", "--offline", "--no-project", "--quiet", "--cache-dir", cache, _PYTHON)


def _unpack_all(wheels: _Wheels, folder: str, cache: str, said: dict[str, str]) -> None:
    package = wheels.take()
    while package:
        name, requirement, _ = package
        said[name] = _unpack(name, requirement, folder=folder, cache=cache)
        package = wheels.take()


def _unpack(name: str, requirement: str, *, folder: str, cache: str) -> str:
    said = _run(
        "/uv", "pip", "install", "--no-config", "--offline", "--no-index", "--find-links", _WHEELS, "--no-deps",
        "--no-build", "--quiet", "--color", "never", "--link-mode", "hardlink", "--python", _PYTHON,
        "--target", os.path.join(folder, name), "--cache-dir", cache, requirement,
    )  # fmt: skip
    _report("unpacked", name)
    return said


def _report(word: str, what: object) -> None:
    sys.stdout.write("%s %s\n" % (word, what))
    sys.stdout.flush()


def _sources(package: str, seen_at: str) -> list[tuple[int, str, str]]:
    """Return the cost of compiling each module, its path, and its path in a box that uses it."""
    found = []
    for path, folders, names in os.walk(package):
        folders[:] = [name for name in folders if name != _LEFT_OUT]
        if path == os.path.join(package, "bin") and "__init__.py" not in names:
            continue
        for name in names:
            if name.endswith(".py"):
                file = os.path.join(path, name)
                found.append((os.lstat(file).st_size + _EACH, file, seen_at + file[len(package) :]))
    return found


def _unusable(packages: list[list[str]], folder: str) -> dict[str, str]:
    """Return the packages without a module that this Python can compile, with the first problem of each."""
    found = {}
    for name, _, _ in packages:
        roots = [os.path.join(folder, name), *(entry.path for entry in os.scandir(os.path.join(folder, name)))]
        modules = [module for root in roots for module in _modules(root, is_package=root != roots[0])]
        problems = [problem for problem in map(_problem, modules) if problem]
        if problems and len(problems) == len(modules):
            found[name] = "none of its modules is Python %d.%d: %s" % (*sys.version_info[:2], problems[0])
    return found


def _modules(root: str, *, is_package: bool) -> list[str]:
    """Return the modules in the folder that are imported by a name without dots."""
    if not os.path.isdir(root):
        return []
    names = ["__init__.py"] if is_package else [name for name in os.listdir(root) if name.endswith(".py")]
    return [path for path in (os.path.join(root, name) for name in names) if os.path.isfile(path)]


def _problem(module: str) -> str:
    """Return why a module cannot be compiled, if so; a module with bytecode can."""
    if os.path.exists(cache_from_source(module)):
        return ""
    with open(module, "rb") as file:
        source = file.read()
    try:
        compile(source, os.path.basename(module), "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error)
    return ""


def _divide(sources: list[tuple[int, str, str]], workers: int) -> list[list[tuple[int, str, str]]]:
    """Divide the sources evenly among the workers, the largest first, each to the worker with the least."""
    shares: list[list[tuple[int, str, str]]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for source in sorted(sources, reverse=True):
        least = loads.index(min(loads))
        shares[least].append(source)
        loads[least] += source[0]
    return [share for share in shares if share]


def _compile(sources: list[tuple[int, str, str]]) -> str:
    paths = "".join(f"{file}\0{shown}\0" for _, file, shown in sources)
    return _run(sys.executable, "-I", "-S", "-B", "-c", _COMPILE, given=paths)


def _run(*command: str, given: str = "") -> str:
    """Run a command; return an empty text after success, else its messages."""
    ended = subprocess.run(command, check=False, input=os.fsencode(given), stderr=subprocess.PIPE)
    said = ended.stderr[-4000:].decode("utf-8", "replace")
    return "" if ended.returncode == 0 else said or "it ended with code %d" % ended.returncode
