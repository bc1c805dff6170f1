"""Importing what calls will need, once for all of them, and leaving what is there as it is for their forks.

A process with threads cannot be forked safely, and libraries for arithmetic start theirs when they are imported, as
many as they are told. So while we import for others they are told one, which is none beside the one that there is. A
call that imports such a library by itself is told the truth.

Nor has a call a descriptor of this process: what a package opened when it was imported would be closed there, and its
number another file's. Where packages leave threads or descriptors, that is told, and calls import them by themselves,
in another box; those that are on their way to this one must not find descriptors that are not theirs.

Some packages cannot be imported here, but in a call: they want a network, say. Python then forgets a package and
remembers its parts, and as those that are known are not tied to it again, no call could import it any more. So they are
forgotten as well; but not those in C, many of which can be loaded only once.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from box import rng_reseed
from call import authoring_module, call, guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_REHEARSALS = 12
_ENDING_S, _PAUSE_S = 0.25, 0.001
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS")


def preload(modules: list[str]) -> tuple[list[str], dict[str, str], int]:
    """Import these; the new ones, those that failed, which is for a call to report, and how many descriptors they have
    left open."""
    were_open = _descriptors()
    told, known = dict(os.environ), set(sys.modules)
    os.environ.update(dict.fromkeys(_POOLS, "1"))
    new = [name for name in modules if name not in sys.modules]
    if any(map(is_foreign, new)):
        with rng_reseed.Noting():
            failed = _failed(new)
    else:
        failed = _failed(new)
    _forget_parts(set(sys.modules).difference(known))
    _restore(told)
    keep_as_is()
    left_open = max(0, _descriptors() - were_open)
    if left_open:
        _forget_foreign(set(sys.modules).difference(known))
    return [name for name in new if name not in failed], failed, left_open


def is_foreign(name: str) -> bool:
    """Return whether a module belongs neither to the standard library nor to us."""
    top = name.partition(".")[0]
    standard = getattr(sys, "stdlib_module_names", None)
    return name != authoring_module.NAME and (
        not _is_in_standard_folder(top) if standard is None else top not in standard
    )


def _is_in_standard_folder(top: str) -> bool:
    """Look the module up by its file, for Pythons before 3.10, which have no list of theirs."""
    if top in sys.builtin_module_names:
        return True
    folder = os.path.dirname(os.__file__)
    compiled = os.path.join(folder, "lib-dynload")
    is_compiled = os.path.isdir(compiled) and any(each.startswith(top + ".") for each in os.listdir(compiled))
    return is_compiled or os.path.exists(os.path.join(folder, top + ".py")) or os.path.isdir(os.path.join(folder, top))


def _failed(modules: list[str]) -> dict[str, str]:
    """Import these; those for which that fails, and why."""
    failed: dict[str, str] = {}
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            failed[name] = "%s: %s" % (type(error).__name__, str(error)[:200])
    return failed


def _forget_parts(names: set[str]) -> None:
    """Those of these modules that are in a package which is not there."""
    for name in sorted(names):
        if "." in name and name.rpartition(".")[0] not in sys.modules and _is_python(sys.modules[name]):
            del sys.modules[name]


def _forget_foreign(names: set[str]) -> None:
    """Have calls import these anew, as far as they can be."""
    for name in sorted(names):
        if not is_foreign(name) or not _is_python(sys.modules[name]):
            continue
        del sys.modules[name]
        package, _, part = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(part, None)


def _is_python(module: Any) -> bool:
    return type(module) is type(sys) and type(vars(module).get("__loader__")).__name__ != "ExtensionFileLoader"


def _restore(told: dict[str, str]) -> None:
    """What the pools are told is as it was; other variables are as an import left them, as they would be in a call."""
    for name in _POOLS:
        if name in told:
            os.environ[name] = told[name]
        else:
            os.environ.pop(name, None)


def rehearse(plan: dict[str, Any]) -> Iterator[bool]:
    """Do what every child does, so that none has to make, or to make its own, what can be shared. More than once,
    because the interpreter rewrites code that runs again and again. It gives False after each part, for a call that
    comes meanwhile not to wait for the rest. What cannot be done, for want of descriptors say, each child does."""
    for _ in range(_REHEARSALS):
        yield False
        try:
            call.rehearse()
            guard.rehearse(plan)
        except OSError:
            continue
    keep_as_is()


def rehearse_calls() -> Iterator[bool]:
    """The same in a template, which forks no guards."""
    for _ in range(_REHEARSALS):
        yield False
        try:
            call.rehearse()
        except OSError:
            continue
    keep_as_is()


def keep_as_is() -> None:
    """Let no collection write to what is there now: each page that is written to after a fork is copied."""
    gc.collect()
    gc.freeze()


def threads() -> int:
    """How many there are; only a process with one can be forked safely. Some packages have one while they are imported,
    which is told to end and needs a moment for it."""
    until = time.monotonic() + _ENDING_S
    while _threads() > 1 and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    return _threads()


def _threads() -> int:
    return _count("/proc/self/task") or 1


def _descriptors() -> int:
    return _count("/proc/self/fd")


def _count(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0
