"""Entering an environment and importing packages, in a process that calls run in or are forked from.

The runner starts isolated and without `site`, so that no foreign code runs before the isolation is in place. `enter`
then does for the environment's packages what an ordinary start does: the folder comes after the standard library,
`.pth` files are followed, which may run code, and `sitecustomize` is imported. A failure or an unreadable file is
reported on stderr, as Python itself reports most of them, and the box goes on. Code that ends the process, or never
ends, ends the box and nothing else.

A process with threads cannot be forked safely, and libraries for arithmetic start threads when they are imported, as
many as environment variables say. So an import for other processes sets these variables to one, which means no thread
besides the present one. A call that imports such a library by itself sees the true values.

Nor does a call have the descriptors of this process: a file that a package opened at import would be closed in the
call, and its number would belong to another file. Packages that leave threads or descriptors are reported, and calls
import them by themselves, in another box. Calls on their way to this box must not find foreign descriptors.

Some packages cannot be imported here, but only in a call: they want a network, for example. Python then forgets such a
package and remembers its parts. Known parts are never tied to their package again, so no call could import it any more.
The parts are therefore forgotten too, except modules in C, many of which can be loaded only once.

A process without a template may import ahead of its call, behind the isolation of that call. Its guard gives it as long
as a call has, accepts it only if the process is then alone, and keeps it stopped until the call comes.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time

from box import pipes, processes, rng_reseed, verification
from call import authoring_module
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any

_ENDING_S, _PAUSE_S = 0.25, 0.001
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS")
_LOOK_MS = 20
_WORD_SIZE = 16
_HELD_LOOK_MS = 500


def enter(prefix: str, packages: str) -> None:
    """Make `prefix` this interpreter's environment, with the packages in the folder `packages`."""
    sys.prefix = sys.exec_prefix = prefix
    sys.executable = os.path.join(prefix, "bin", "python")
    names = os.listdir(packages)
    sys.path.append(packages)
    for name in sorted(name for name in names if name.endswith(".pth") and not name.startswith(".")):
        _follow(packages, name)
    for name in ("sitecustomize", "usercustomize"):
        if name in names or name + ".py" in names:
            _customise(name)


def _follow(packages: str, name: str) -> None:
    """Follow a `.pth` file, which names further folders and may contain code."""
    import site

    try:
        site.addpackage(packages, name, None)
    except Exception as error:
        sys.stderr.write("%s cannot be read: %s: %s\n" % (name, type(error).__name__, error))


def _customise(name: str) -> None:
    try:
        __import__(name)
    except Exception as error:
        sys.stderr.write("%s failed: %s: %s\n" % (name, type(error).__name__, error))


def preload(modules: list[str]) -> tuple[list[str], dict[str, str], int]:
    """Import modules for later forks.

    Return the new modules, those that failed with the reasons, which a call will report, and how many descriptors the
    imports left open.
    """
    open_before = _count_descriptors()
    variables, known = dict(os.environ), set(sys.modules)
    os.environ.update(dict.fromkeys(_POOLS, "1"))
    new = [name for name in modules if name not in sys.modules]
    if any(map(is_foreign, new)):
        with rng_reseed.NoteGenerators():
            failed = _import_all(new)
    else:
        failed = _import_all(new)
    _forget_parts(set(sys.modules).difference(known))
    _restore_pools(variables)
    freeze()
    left_open = max(0, _count_descriptors() - open_before)
    if left_open:
        _forget_foreign(set(sys.modules).difference(known))
    return [name for name in new if name not in failed], failed, left_open


def is_foreign(name: str) -> bool:
    """Whether a module belongs neither to the standard library nor to us."""
    top = name.partition(".")[0]
    standard = getattr(sys, "stdlib_module_names", None)
    return name != authoring_module.NAME and (
        not _is_in_standard_folder(top) if standard is None else top not in standard
    )


def _is_in_standard_folder(top: str) -> bool:
    """Look the module up by its file, for Pythons before 3.10, which have no list of their modules."""
    if top in sys.builtin_module_names:
        return True
    folder = os.path.dirname(os.__file__)
    extensions = os.path.join(folder, "lib-dynload")
    is_extension = os.path.isdir(extensions) and any(each.startswith(top + ".") for each in os.listdir(extensions))
    return is_extension or os.path.exists(os.path.join(folder, top + ".py")) or os.path.isdir(os.path.join(folder, top))


def _import_all(modules: list[str]) -> dict[str, str]:
    """Import modules; return those that fail, with the reasons."""
    failed: dict[str, str] = {}
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            failed[name] = "%s: %s" % (type(error).__name__, str(error)[:200])
    return failed


def _forget_parts(names: set[str]) -> None:
    """Forget the modules whose package is not imported."""
    for name in sorted(names):
        if "." in name and name.rpartition(".")[0] not in sys.modules and _is_python(sys.modules[name]):
            del sys.modules[name]


def _forget_foreign(names: set[str]) -> None:
    """Have calls import these modules anew, where that is possible."""
    for name in sorted(names):
        if not is_foreign(name) or not _is_python(sys.modules[name]):
            continue
        del sys.modules[name]
        package, _, part = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(part, None)


def _is_python(module: Any) -> bool:
    return type(module) is type(sys) and type(vars(module).get("__loader__")).__name__ != "ExtensionFileLoader"


def _restore_pools(variables: dict[str, str]) -> None:
    """Restore the variables about threads; other variables stay as an import left them, as they would in a call."""
    for name in _POOLS:
        if name in variables:
            os.environ[name] = variables[name]
        else:
            os.environ.pop(name, None)


def freeze() -> None:
    """Keep the collector from writing to present objects: each page that is written to after a fork is copied."""
    gc.collect()
    gc.freeze()


def count_threads() -> int:
    """Return the number of threads, after a moment for those that are ending.

    Some packages have a thread while they are imported. Only a process with one thread can be forked safely.
    """
    until = time.monotonic() + _ENDING_S
    while _count_threads_now() > 1 and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    return _count_threads_now()


def _count_threads_now() -> int:
    return _count("/proc/self/task") or 1


def _count_descriptors() -> int:
    return _count("/proc/self/fd")


def _count(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


# The guard's watch over a process that prepares itself before its call


def await_word(link: socket.socket, pid: int, *, within_s: float | None = None) -> None:
    """Wait until the process is ready or dead, and kill it when time is up.

    Processes that it started may keep its end of the link open, so the end of the link proves nothing.
    """
    until = None if within_s is None else time.monotonic() + within_s
    poll = select.poll()
    poll.register(link, select.POLLIN)
    while not poll.poll(_LOOK_MS):
        if _has_ended(pid):
            return
        if until is not None and time.monotonic() > until:
            processes.end_process(pid)
    link.recv(_WORD_SIZE)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def is_alone(subject: verification.ProcessRef, *, guard: str) -> bool:
    """Whether importing packages ahead of the call has left neither processes nor threads.

    The guard, whose number is `guard`, has adopted the processes whose parents have ended.
    """
    number = int(subject.number)
    has_left_orphans = processes.children(int(guard)) != [number]
    return not has_left_orphans and not processes.children(number) and verification.state_of(number)[1] == 1


def hold_until_called(subject: verification.ProcessRef) -> None:
    """Stop the process, so that none of its packages run, until its request comes or it is dismissed."""
    poll = select.poll()
    poll.register(pipes.REQUEST, select.POLLIN)
    os.kill(subject.pid, signal.SIGSTOP)
    while not poll.poll(_HELD_LOOK_MS):
        if verification.state_of(int(subject.number))[0] != verification.STOPPED:
            processes.end_process(subject.pid)  # packages can have a timer wake it
            break
    os.close(pipes.REQUEST)
    os.kill(subject.pid, signal.SIGCONT)
