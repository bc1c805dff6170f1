"""Tests, modules and runs leave nothing behind.

A *trace* is a resource that outlives its maker unless it is given back: a process, a descriptor, a mount, a cgroup, a
temporary directory. Each look below names all traces of one kind that there are now; a `Watch` compares two looks. A
new trace gets a moment to go, because processes take time to die, and is then a failure that names the trace.

A test is watched by itself when it uses fixtures of its own only. An engine that a module's tests share may rightly
open a box in any of them, so such a test is watched with its module, and where a fixture is shared by the whole run,
with the run. The run has a temporary directory of its own, so that what others do on the machine is not blamed on it.

Several processes may share a run (see `tests/workers.py`). Each is watched like a run, for its own traces. The cgroup
of a dead engine does not show whose it was: all new cgroups of dead engines are the whole run's.

Fixtures here are automatic: there is nothing to ask for. A process that was orphaned is no child of ours any more;
those are found by `tests/provision/offspring.py`.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import psutil
import pytest

from tests.workers import is_worker, make_own_folder

Traces = dict[str, str]  # the identity of a trace → its name in a failure
Look = Callable[[], Traces]
Scope = Literal["function", "module", "session"]

PATIENCE_SECONDS = 30.0
THE_RUN: Final = "The run left behind"
_CGROUPS: Final = Path("/sys/fs/cgroup")
_KEEP_NOTHING_OPEN: Final = {
    __name__,
    "tests.conftest",
    "tests.workers",
    "tests.unprivileged",
    "tests.packaging.builds",
}
_OUTCOME: Final = pytest.StashKey[bool]()
_NAMED: Final = pytest.StashKey[set[str]]()
_SCOPES: Final = pytest.StashKey[defaultdict[Path, set[Scope]]]()
_WHOLE_RUN: Final = pytest.StashKey["Watch"]()
_LEFT: Final = pytest.StashKey[Traces]()


def processes() -> Traces:
    """This process's children; theirs die with them, or become orphans."""
    return {str(child): _process_name(child) for child in _children()}


def _children() -> list[int]:
    try:
        tasks = list(Path("/proc/self/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return [child.pid for child in psutil.Process().children()]


def _process_name(process: int) -> str:
    try:
        found = psutil.Process(process)
        return f"process {process} ({found.status()}) {' '.join(found.cmdline())[:200]}"
    except psutil.Error:
        return f"process {process}"


def descriptors() -> Traces:
    """This process's open descriptors and what each leads to."""
    found: Traces = {}
    for number in os.listdir("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        found[f"{number} {target}"] = f"descriptor {number} → {target}"
    return found


def mounts() -> Traces:
    """Mount points in our own mount namespace; a box's are in the box's."""
    table = Path("/proc/self/mountinfo")
    points = [line.split()[4] for line in table.read_text().splitlines()] if table.exists() else []
    return {point: f"mount {point}" for point in points}


def cgroups() -> Traces:
    """The cgroups of engines that are ours, or dead; another engine at work on this machine has its own."""
    return {str(path): f"cgroup {path}" for path in _engines_cgroups() if _is_ours(path) is not False}


def own_cgroups() -> Traces:
    """The cgroups of engines that are ours, and alive."""
    return {str(path): f"cgroup {path}" for path in _engines_cgroups() if _is_ours(path)}


def _engines_cgroups() -> Iterator[Path]:
    for directory, names, _ in os.walk(_CGROUPS):
        for name in [name for name in names if name.startswith("sandbox-")]:
            names.remove(name)
            yield Path(directory, name)


def _is_ours(cgroup: Path) -> bool | None:
    """Whether the process it is named for is this one or descends from it; None when there is no such process."""
    owner = cgroup.name.split("-")[1]
    try:
        process = psutil.Process(int(owner))
        return os.getpid() in (process.pid, *(parent.pid for parent in process.parents()))
    except (ValueError, psutil.NoSuchProcess):
        return None


def temporary_directories() -> Traces:
    """Return the content of the run's own temporary directory."""
    return {name: f"temporary {Path(tempfile.gettempdir(), name)}" for name in os.listdir(tempfile.gettempdir())}


@contextmanager
def _own_temporary_directory(config: pytest.Config) -> Iterator[None]:
    """Where this process and what it starts put temporary files; open to all users, as the system's is."""
    kept = os.environ.get("TMPDIR"), tempfile.tempdir
    folder = make_own_folder(config)
    folder.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = kept[1]
        os.environ.pop("TMPDIR") if kept[0] is None else os.environ.update(TMPDIR=kept[0])
        shutil.rmtree(folder)


class Watch:
    """Remembers what there is, and says later what there is more of."""

    def __init__(self, *looks: Look) -> None:
        self._before = {look: look() for look in looks}

    def leftovers(self, *, within: float | None = None, besides: Container[str] = ()) -> dict[str, str]:
        """The traces that are new and stay, after waiting for them to go; those already known are not waited for."""
        deadline = time.monotonic() + (PATIENCE_SECONDS if within is None else within)
        while (found := self._found(besides)) and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        return found

    def _found(self, besides: Container[str]) -> Traces:
        found: Traces = {}
        for look, before in self._before.items():
            now = {trace: name for trace, name in look().items() if trace not in besides}
            if len(now) > len(before):  # a trace that took another's place is no growth
                found.update({trace: name for trace, name in now.items() if trace not in before})
        return found


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if not is_worker(session.config):
        session.config.stash[_WHOLE_RUN] = Watch(cgroups)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail on traces for which no process of a shared run can be blamed."""
    if (watch := session.config.stash.get(_WHOLE_RUN, None)) is None:
        return
    left = session.config.stash[_LEFT] = watch.leftovers(besides=_named(session.config))
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash.get(_LEFT, {}):
        terminalreporter.section(THE_RUN, red=True)
        for name in left.values():
            terminalreporter.line(name)


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Watch all kinds of traces from before the first test until every fixture is closed."""
    tmp_path_factory.getbasetemp()  # pytest keeps this folder for a look into failures
    with _own_temporary_directory(request.config):
        watch = Watch(processes, descriptors, mounts, _cgroups(request.config), temporary_directories)
        yield
        _fail_on(watch, request.config, who=THE_RUN)


@pytest.fixture(scope="module", autouse=True)
def nothing_outlives_the_module(request: pytest.FixtureRequest, nothing_outlives_the_run: None) -> Iterator[None]:
    """Processes, descriptors and cgroups, for a module that shares no fixture with others."""
    watch = Watch(processes, descriptors, _cgroups(request.config))
    yield
    if "session" not in _scopes_of_the_module(request):
        _fail_on(watch, request.config, who=f"{request.path.name} left behind")


@pytest.fixture(autouse=True)
def nothing_outlives_the_test(request: pytest.FixtureRequest, nothing_outlives_the_module: None) -> Iterator[None]:
    """Processes and descriptors, for a test of a module whose tests share nothing: an engine that they share may be at
    work in any of them, and is the module's. A failed test's traceback holds things open."""
    watch = Watch(processes, descriptors)
    yield
    if _scopes_of_the_module(request) == {"function"} and request.node.stash.get(_OUTCOME, True):
        _fail_on(watch, request.config, who="The test left behind")


def _fail_on(watch: Watch, config: pytest.Config, *, who: str) -> None:
    """Fail with the names of what was left behind, each once: a module is not blamed for what its test left."""
    named = _named(config)
    if leftovers := watch.leftovers(besides=named):
        named.update(leftovers)
        pytest.fail(f"{who}:\n  " + "\n  ".join(leftovers.values()), pytrace=False)


def _named(config: pytest.Config) -> set[str]:
    return config.stash.setdefault(_NAMED, set())


def _cgroups(config: pytest.Config) -> Look:
    """Return the look at cgroups for which a test or a module can be blamed."""
    return own_cgroups if is_worker(config) else cgroups


def pytest_collection_finish(session: pytest.Session) -> None:
    scopes: defaultdict[Path, set[Scope]] = defaultdict(set)
    session.config.stash[_SCOPES] = scopes
    for item in session.items:
        scopes[item.path].add(shared_scope(item))


def _scopes_of_the_module(request: pytest.FixtureRequest) -> set[Scope]:
    """How widely what its tests ask for is shared."""
    return request.config.stash[_SCOPES][request.path]


def shared_scope(item: pytest.Item) -> Scope:
    """How widely the fixtures that this test asks for, and that this project wrote, are shared."""
    asked = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    scopes = {found[-1].scope for found in asked if _is_shared(found[-1].func)}
    if scopes & {"session", "package"}:
        return "session"
    return "module" if scopes & {"module", "class"} else "function"


def _is_shared(fixture: Callable[..., object]) -> bool:
    return fixture.__module__.startswith("tests.") and fixture.__module__ not in _KEEP_NOTHING_OPEN


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        item.stash[_OUTCOME] = report.passed
    return report
