"""Packages that attack the processes which import them, in every set-up, judged by what the host's kernel shows.

A package is tool code: whatever it does when it is imported, or when Python starts, calls stand behind the walls that
their receipts name, nothing of it runs on, no limit is passed, and no error blames the host. See the modules
`hostile_packages` for what is tried, `outside_view` for who judges, and `hostile_engines` for the set-ups.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from sandbox import Outcome, Status
from sandbox.backends.ownership import LABELS
from tests.end_to_end.calls import groups_of
from tests.end_to_end.packages import requiring
from tests.escape import outside_view as outside
from tests.escape.hostile_engines import (
    AS_ROOT,
    IN_GVISOR,
    KEPT,
    MEMORY,
    PROCESSES,
    SETUPS,
    SINGLE_USE,
    WITHOUT_GROUPS,
    WITHOUT_ROOT,
    Ground,
    HostileEngine,
    Open,
    Refused,
    Running,
    Setup,
    ground,
    opened,
    setups,
)
from tests.escape.hostile_packages import (
    EXEC_CODE,
    EXIT_CODE,
    FORGED,
    FORK_FAILURE_CODE,
    HANGING,
    HOLDER,
    RAN,
    SURVIVOR,
    Form,
    Hostile,
    hostile,
)
from tests.escape.outside_view import Seen

pytestmark = [pytest.mark.slow, pytest.mark.root]

MARKS: Final = sorted(random.SystemRandom().sample(range(36, 64), 4))
"""The signals that a waiting tool of this test run blocks, which is how the host's `/proc` shows where it is."""
SOON_S: Final = 5.0
AT_LAST_S: Final = 20.0
"""How long the end of a container may take that nothing ends but the end of its engine."""
LOOKS: Final = 3
BETWEEN_LOOKS_S: Final = 0.05
OURS: Final = 8
"""Processes of the runner that an exhausted box may have: zygote, guards, and the children that wait for calls."""
WALLED_IN_GVISOR: Final = ("mem", "root", "attach", "seize", "vm", "unshare", "mount")
HOST_BLAMED: Final = ("HostExhausted", "IsolationUnavailable", "BackendUnavailable")
HOST_WORDS: Final = ("ulimit", "pids.max", "descriptors or memory have run out")
CALL: Final = """
import os, signal, stat, sys
{start}
def landlock_bites():
    try:
        os.mknod("probe", stat.S_IFCHR | 0o600, 0)
    except OSError:
        return True
    os.unlink("probe")
    return False

def tool(marks: list, waits: bool):
    signal.pthread_sigmask(signal.SIG_BLOCK, marks)
    bites = landlock_bites()
    sys.stdout.write("waiting\\n")
    sys.stdout.flush()
    if waits:
        signal.sigwait(marks[:1])
    modules = [sys.modules[name] for name in {names!r} if name in sys.modules]
    return {{"reports": {{module.MODE: module.report() for module in modules}}, "landlock": bites}}
"""
SERVE: Final = "import honest\ndef tool():\n    return 'served'\n"


# Engines


@pytest.fixture(scope="session")
def wheels() -> Iterator[Ground]:
    """All hostile packages, made once in a run."""
    with ground() as made:
        yield made


@pytest.fixture(scope="module")
def open_engine(request: pytest.FixtureRequest, wheels: Ground) -> Iterator[Open]:
    """Return a function that opens an engine of each set-up once, for all tests."""
    found: dict[Setup, HostileEngine] = {}
    with ExitStack() as kept:

        def open_once(setup: Setup) -> HostileEngine:
            if setup not in found or found[setup].process.poll() is not None:
                found[setup] = kept.enter_context(_opened(setup, request, wheels))
            return found[setup]

        yield open_once
    assert not any(_left_of(engine, wheels) for engine in found.values()), "a closed engine left processes"


@pytest.fixture
def engine(request: pytest.FixtureRequest, open_engine: Open) -> HostileEngine:
    """The engine of one set-up."""
    found = open_engine(request.param)
    found.known = outside.family(found.pid, found.users)
    return found


@pytest.fixture(autouse=True)
def _nothing_left_for_the_next_test(wheels: Ground) -> Iterator[None]:
    """Fail the test of an attack that leaves something behind, and no other test."""
    yield
    for pid in _named(wheels):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def _opened(setup: Setup, request: pytest.FixtureRequest, wheels: Ground) -> Iterator[HostileEngine]:
    python = None if setup.is_root else request.getfixturevalue("unprivileged_python")
    daemon = None
    if setup.runtime:
        daemon = request.getfixturevalue("docker_daemon")
        request.getfixturevalue("base_image")
    with opened(setup, wheels, python=python, daemon=daemon) as engine:
        yield engine


# The questions of all tests


def source_of(packages: Hostile) -> str:
    """A tool that requires the packages, waits to be looked at, and returns what they report."""
    lines = [f"import {name}\n" for name in packages.names] if packages.form == "import" else []
    return requiring(packages.names, CALL.format(start="".join(lines), names=packages.names))


def reports_of(outcome: Outcome) -> dict[str, Any]:
    """Return the report of each package by its mode; empty if the call returned none."""
    value: Any = outcome.value
    return dict(value["reports"]) if isinstance(value, dict) else {}


@dataclass
class Looked:
    """A call that the test observed while it ran."""

    outcome: Outcome
    seen: Seen | None = None
    strays: list[str] = field(default_factory=list)
    relatives: list[str] = field(default_factory=list)


def look_at_call(engine: HostileEngine, packages: Hostile, wheels: Ground) -> Looked:
    """Run a call, and look at its process from outside while it waits."""
    is_visible = engine.setup.is_visible
    running = engine.start(source_of(packages), args={"marks": MARKS, "waits": is_visible})
    looked: list[Any] = [None, [], []]
    if is_visible:
        running.wait_for_output()
        outside.wait_until(lambda: running.has_ended or outside.find_waiting(MARKS) is not None, within=SOON_S)
        pid = outside.find_waiting(MARKS)
        if pid is not None:
            with suppress(OSError):  # the limit may kill the process meanwhile
                looked = [outside.look(pid), _strays(pid, packages, wheels), _relatives(engine, pid)]
            outside.signal_main_thread(pid, MARKS[0])
    outcome = running.outcome()
    found = Looked(outcome, *looked)
    if found.seen is not None:
        engine.note_user(found.seen.uid)
    elif outcome.receipt is not None and outcome.receipt.user.isdigit():
        engine.note_user(int(outcome.receipt.user))
    return found


def _strays(pid: int, packages: Hostile, wheels: Ground) -> list[str]:
    """The processes that a package left, and that are not in the pid namespace of the call which runs."""
    own = outside.namespaces_of(pid).get("pid")
    left = outside.named(SURVIVOR, token=wheels.token, codes=packages.codes)
    return [outside.describe(each) for each in left if outside.namespaces_of(each).get("pid") != own]


def _relatives(engine: HostileEngine, pid: int) -> list[str]:
    """The processes of the engine that share memory or descriptors with the call's, or keep what is the call's own."""
    others = outside.family(engine.pid, engine.users) - {pid}
    found = [f"{what} with {other}" for other in others for what in outside.shared_with(pid, other)]
    return found + [f"{what} with {other}, which keeps it" for other in others for what in outside.kept_of(pid, other)]


def assert_blames_no_host(refused: Refused) -> None:
    """Assert that the host can run calls as before."""
    assert refused.type not in HOST_BLAMED, refused
    assert not [word for word in HOST_WORDS if word in str(refused)], refused


def complaints(looked: Looked, engine: HostileEngine) -> list[str]:
    """Return the problems of an observed call, whatever the call returned."""
    receipt, value = looked.outcome.receipt, looked.outcome.value
    if receipt is None:
        return [f"it has no receipt: {looked.outcome.to_json()[:2000]}"]
    found = [f"left by a package, in no call: {each}" for each in looked.strays]
    found += [f"shares {each}" for each in looked.relatives]
    if isinstance(value, dict) and receipt.layers["landlock"].in_force and not value["landlock"]:
        found.append("landlock: it does not bite")
    if not isinstance(looked.outcome.evidence.get("environment", {}), dict):
        found.append("the evidence does not name what was wrong with the environment")
    if looked.seen is not None:
        found += outside.complaints(receipt, looked.seen, engine=engine.pid)
    return found


def leftovers(engine: HostileEngine, wheels: Ground, *packages: Hostile) -> list[str]:
    """Return the processes that environments left, and waiting boxes that use processor time."""
    outside.wait_until(lambda: not _named(wheels, *packages), within=SOON_S)
    found = [f"{outside.describe(pid)}, runs on" for pid in _named(wheels, *packages)]
    return found if found or _comes_to_rest(engine) else ["an idle box takes processor time"]


def _comes_to_rest(engine: HostileEngine) -> bool:
    """Whether the boxes take no processor time over a number of looks, one after the other, sooner or later."""
    for _ in range(8):
        before = outside.ticks(_new_family(engine))
        for _ in range(LOOKS):
            time.sleep(BETWEEN_LOOKS_S)
        if outside.ticks(_new_family(engine)) - before <= 1:
            return True
    return False


def _new_family(engine: HostileEngine) -> set[int]:
    """The processes of the engine's boxes, without those that earlier tests left."""
    return outside.family(engine.pid, engine.users) - engine.known


def assert_serves(engine: HostileEngine) -> None:
    """The next call, of a tool with another environment, is served."""
    assert engine.run(requiring(("honest",), SERVE)).value == "served"


def _left_of(engine: HostileEngine, wheels: Ground) -> list[int]:
    """Return the processes of an engine that has ended."""
    outside.wait_until(lambda: not _runs(engine, wheels), within=SOON_S)
    return _runs(engine, wheels)


def _runs(engine: HostileEngine, wheels: Ground) -> list[int]:
    return [*_named(wheels), *(outside.family(-1, engine.users) if engine.users else ())]


def _named(wheels: Ground, *packages: Hostile) -> list[int]:
    codes = [code for each in packages for code in each.codes]
    kinds = (SURVIVOR, HANGING, HOLDER)
    return [pid for start in kinds for pid in outside.named(start, token=wheels.token, codes=codes)]


# Packages that let their calls go on


WALLS: Final = ("strips", "reaches")
STAYS: Final = ("survives", "lurks", "wakes", "clings")
MEMBERS: Final = (("shares",), ("keeps",), ("hides",), ("robs",))
"""The modes that carry words from one call to the next."""
QUIET: Final[dict[Setup, tuple[tuple[str, ...], ...]]] = {
    AS_ROOT: (WALLS, ("strips",), STAYS, *MEMBERS, ("revives",), ("forges",), ("voids",), ("clones",)),
    WITHOUT_ROOT: (WALLS, STAYS, *MEMBERS, ("revives",), ("forges",)),
    WITHOUT_GROUPS: (WALLS, STAYS),
    KEPT: (WALLS, STAYS, *MEMBERS, ("revives",), ("forges",), ("clones",)),
    SINGLE_USE: (WALLS, STAYS, ("forges",)),
    IN_GVISOR: (WALLS, ("survives",), ("forges",)),
}
"""The modes that are in one environment together. Where a call has a box of its own, no call is the next in it."""


def _quiet() -> Iterator[Any]:
    for setup, groups in QUIET.items():
        for modes in groups:
            for form in _forms(setup, modes):
                packages = hostile(form, *modes)
                yield pytest.param(setup, packages, id=f"{setup}-{packages}")


def _forms(setup: Setup, modes: tuple[str, ...]) -> tuple[Form, ...]:
    if modes == ("strips",):
        return ("sitecustomize",)
    if modes in (("keeps",), ("robs",)):
        return ("import",)
    return ("pth",) if len(modes) == 1 and modes[0] not in ("forges", "voids") else ("import", "pth")


@pytest.mark.parametrize(("engine", "packages"), list(_quiet()), indirect=["engine"])
def test_calls_stand_behind_the_walls_of_their_receipts(
    engine: HostileEngine, packages: Hostile, wheels: Ground
) -> None:
    found: list[str] = []
    for _ in range(2 if engine.setup.is_warm else 1):
        try:
            looked = look_at_call(engine, packages, wheels)
        except Refused as refused:
            found.append(f"no outcome: {refused}")
            continue
        found += complaints(looked, engine)
        found += _gains(looked.outcome, packages, engine.setup)
    found += leftovers(engine, wheels, packages)
    assert found == []
    assert_serves(engine)


def _gains(outcome: Outcome, packages: Hostile, setup: Setup) -> list[str]:
    """Return the gains of the packages, and the packages whose code did not run.

    A call that has a container of its own shares it with the container's init, which is no process of ours. gVisor, in
    a container for one call, lets processes of one user open each other's descriptors, whatever they ask of it.
    """
    if packages.modes == ("forges",) and outcome.status is not Status.OK:
        return _harm_of_forgeries(outcome)  # a package may forge what its own call returns, and nothing else
    if outcome.status is not Status.OK:
        return [f"the call did not go on: {outcome.to_json()[:2000]}"]
    if packages.modes == ("forges",) and outcome.value == FORGED:
        return []
    if outcome.value == FORGED:
        return ["a call returned what another process wrote"]
    reports = reports_of(outcome)
    found = [f"'{mode}' did not run" for mode in packages.modes if "done" not in reports.get(mode, {})]
    for tried in (reports.get("reaches", {}).get(when, {}) for when in ("done", "later")):
        reached = (*tried.get("gained", ()), *tried.get("natively", ()))
        found += [f"reached {what}" for what in reached if _is_walled(what, setup)]
    for (mode,) in MEMBERS:
        if reports.get(mode, {}).get("later", {}).get("found"):
            found.append(f"'{mode}' found what an earlier call left")
    return found


def _is_walled(what: str, setup: Setup) -> bool:
    if not setup.is_visible:
        return what.startswith(("mem", "root", "attach", "seize", "vm", "unshare", "mount")) and not what.endswith(
            " of 1"
        )
    return setup.is_warm or not what.endswith(" of 1")


def _harm_of_forgeries(outcome: Outcome) -> list[str]:
    statuses = (Status.EXCEPTION, Status.EXITED, Status.CRASHED)
    is_measured = (outcome.usage.cpu_s or 0) < 1e5 and outcome.status in statuses
    return [] if is_measured and _has_left_a_trace(outcome) else [f"a forgery was believed: {outcome.to_json()[:2000]}"]


HONEST_CALLS: Final = 40


@setups(AS_ROOT, KEPT)
def test_an_honest_package_is_never_suspected(engine: HostileEngine) -> None:
    outcomes = [engine.run(requiring(("honest",), SERVE)) for _ in range(HONEST_CALLS)]
    assert [outcome.evidence["environment"] for outcome in outcomes if "environment" in outcome.evidence] == []
    assert all(outcome.timing.preloaded for outcome in outcomes)


# Packages that use one call against another


@setups(AS_ROOT, WITHOUT_ROOT)
@pytest.mark.parametrize("packages", [hostile("import", "robs"), hostile("import", "murders")], ids=str)
def test_a_package_does_no_harm_to_a_call_by_means_of_the_next(
    engine: HostileEngine, packages: Hostile, wheels: Ground
) -> None:
    """A call waits while the same environment serves others, and then returns what it has to."""
    source = source_of(packages)
    engine.run(source, args={"marks": MARKS, "waits": False})  # so that the next two are in one box
    waiting = engine.start(source, args={"marks": MARKS, "waits": True})
    waiting.wait_for_output()
    others = [outcome_of(engine, engine.start(source, args={"marks": MARKS, "waits": False})) for _ in range(3)]
    pid = outside.find_waiting(MARKS)
    assert pid is not None or waiting.has_ended, "the call that waits is not to be found"
    if pid is not None:
        outside.signal_main_thread(pid, MARKS[0])
    may_end = packages.modes == ("murders",)  # its code is in that call's process anyway
    for outcome in (waiting.outcome(), *others):
        if may_end and outcome.status is Status.CRASHED:
            assert outcome.evidence["signal"] == "SIGKILL"
            continue
        assert outcome.status is Status.OK, outcome.to_json()[:2000]
        assert outcome.value != FORGED, "a call returned what another process wrote"
        assert "done" in reports_of(outcome).get(packages.modes[0], {}), f"the attack did not run: {outcome.value}"
    assert leftovers(engine, wheels, packages) == []
    assert_serves(engine)


# Packages that take too much


@dataclass(frozen=True, slots=True)
class Excess:
    """The resources that a package takes, and the possible ends of its calls."""

    mode: str
    statuses: tuple[Status, ...]


EXCESSES: Final = (
    Excess("bombs", (Status.OK, Status.LIMIT, Status.MEMORY, Status.TIMEOUT)),
    Excess("swells", (Status.MEMORY, Status.EXCEPTION, Status.CRASHED)),
    Excess("scatters", (Status.OK, Status.MEMORY, Status.CRASHED)),
    Excess("hoards", (Status.OK, Status.EXCEPTION, Status.MEMORY, Status.LIMIT, Status.CRASHED)),
)
TAKEN: Final[dict[Setup, tuple[tuple[str, Form], ...]]] = {
    AS_ROOT: (("bombs", "import"), ("bombs", "pth"), ("swells", "pth"), ("scatters", "import"), ("hoards", "pth")),
    WITHOUT_ROOT: (("bombs", "pth"), ("swells", "import"), ("scatters", "pth"), ("hoards", "import")),
    WITHOUT_GROUPS: (("bombs", "import"), ("scatters", "pth")),
    KEPT: (("bombs", "pth"), ("swells", "import"), ("scatters", "pth")),
    SINGLE_USE: (("bombs", "import"), ("swells", "pth")),
    IN_GVISOR: (("bombs", "pth"), ("swells", "import")),
}


def _excesses() -> Iterator[Any]:
    for setup, chosen in TAKEN.items():
        for mode, form in chosen:
            excess = next(each for each in EXCESSES if each.mode == mode)
            yield pytest.param(setup, form, excess, id=f"{setup}-{mode}-{form}")


@pytest.mark.parametrize(("engine", "form", "excess"), list(_excesses()), indirect=["engine"])
def test_a_package_takes_no_more_than_a_call_may(
    engine: HostileEngine, form: Form, excess: Excess, wheels: Ground
) -> None:
    packages = hostile(form, excess.mode)
    with _sampling(wheels, packages) as most:
        running = engine.start(source_of(packages), args={"marks": MARKS, "waits": False})
        outcome = outcome_of(engine, running)
    assert _has_left_a_trace(outcome) or most["processes"], "the attack did not run"
    assert outcome.status in excess.statuses, outcome.to_json()[:2000]
    if engine.setup.has_groups:
        boxes = 2 if engine.setup.runtime else 1  # a retired box ends while the next one opens
        assert most["processes"] <= boxes * (PROCESSES + OURS), most
        assert most["bytes"] <= boxes * (MEMORY + outside.ALLOWANCE), most
    else:  # the watch samples: a package may take more for a moment, and never keeps it
        assert most["steady processes"] <= PROCESSES + OURS, most
        assert most["steady bytes"] <= MEMORY, most
    done = reports_of(outcome).get(excess.mode, {}).get("done") or {}
    assert done.get("bytes", 0) <= MEMORY, "the package holds what no limit counts"
    assert leftovers(engine, wheels, packages) == []
    assert_serves(engine)


@contextmanager
def _sampling(wheels: Ground, packages: Hostile) -> Iterator[Counter[str]]:
    """The most processes that packages had at any look, their memory, and the least of it over several looks."""
    most: Counter[str] = Counter()
    is_over = threading.Event()

    def sample() -> None:
        looks: deque[dict[str, int]] = deque(maxlen=3 * LOOKS)
        while not is_over.wait(BETWEEN_LOOKS_S):
            holders = outside.named(HOLDER, token=wheels.token, codes=packages.codes)
            survivors = outside.named(SURVIVOR, token=wheels.token, codes=packages.codes)
            processes = max(len(survivors), len(holders))
            looks.append({"processes": processes, "bytes": outside.own_bytes(holders)})
            for name, number in looks[-1].items():
                most[name] = max(most[name], number)
                if len(looks) == looks.maxlen:
                    most[f"steady {name}"] = max(most[f"steady {name}"], min(look[name] for look in looks))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def outcome_of(engine: HostileEngine, running: Running) -> Outcome:
    """The outcome of a call; an error that blames the host is a failure of its own."""
    try:
        outcome = running.outcome()
    except Refused as refused:
        assert_blames_no_host(refused)
        raise
    if outcome.receipt is not None and outcome.receipt.user.isdigit():
        engine.note_user(int(outcome.receipt.user))
    said = f"{outcome.error}"  # the evidence quotes what the packages printed
    assert not [word for word in HOST_WORDS if word in said], said
    return outcome


def _has_left_a_trace(outcome: Outcome) -> bool:
    """Whether anything shows that the package's code ran: its words, its report, or its codes."""
    is_told = any("done" in report for report in reports_of(outcome).values())
    codes = (EXIT_CODE, EXEC_CODE, FORK_FAILURE_CODE)
    has_code = outcome.evidence.get("exit_code") in codes or outcome.evidence.get("signal") == "SIGKILL"
    return is_told or has_code or RAN in outcome.stdout.text + outcome.stderr.text


# Packages that end or stop the process which imports them


@dataclass(frozen=True, slots=True)
class Deed:
    """A way to end, and how a call ends that meets it behind its own walls."""

    mode: str
    form: Form
    statuses: tuple[Status, ...]
    evidence: dict[str, object] = field(default_factory=dict)


_ANY: Final = (Status.OK, Status.EXCEPTION, Status.EXITED, Status.CRASHED)
DEEDS: Final = (
    Deed("exits", "import", (Status.EXITED,), {"exit_code": EXIT_CODE}),
    Deed("exits", "pth", (Status.EXITED,), {"exit_code": EXIT_CODE}),
    Deed("raises", "import", (Status.EXITED,), {"exit_code": EXIT_CODE}),
    Deed("raises", "pth", (Status.EXITED,), {"exit_code": EXIT_CODE}),
    Deed("dies", "import", (Status.CRASHED,), {"signal": "SIGKILL"}),
    Deed("dies", "pth", (Status.CRASHED,), {"signal": "SIGKILL"}),
    Deed("stops", "pth", (Status.TIMEOUT,)),
    Deed("hangs", "import", (Status.TIMEOUT,)),
    Deed("closes", "import", _ANY),
    Deed("closes", "pth", _ANY),
    Deed("execs", "import", (Status.EXITED,), {"exit_code": EXEC_CODE}),
    Deed("execs", "pth", (Status.EXITED,), {"exit_code": EXEC_CODE}),
    Deed("lowers", "import", (*_ANY, Status.LIMIT)),
    Deed("lowers", "pth", (*_ANY, Status.LIMIT)),
    Deed("blames", "import", (Status.EXITED,), {"exit_code": FORK_FAILURE_CODE}),
    Deed("blames", "pth", (Status.EXITED,), {"exit_code": FORK_FAILURE_CODE}),
)
SLOW: Final = ("stops", "hangs")
FEW: Final = ("dies", "execs", "blames")


def _deeds(setup: Setup) -> list[Deed]:
    if setup is IN_GVISOR:
        return [deed for deed in DEEDS if deed.mode in FEW and deed.form == "pth"]
    return [deed for deed in DEEDS if deed.mode not in SLOW or setup in (AS_ROOT, KEPT)]


@setups()
def test_a_package_that_ends_its_process_ends_its_own_call_at_most(engine: HostileEngine, wheels: Ground) -> None:
    deeds = _deeds(engine.setup)
    packages = [hostile(deed.form, deed.mode) for deed in deeds]
    arguments = {"marks": MARKS, "waits": False}
    calls = [engine.start(source_of(each), is_hasty=each.modes[0] in SLOW, args=arguments) for each in packages]
    found = {}
    for deed, running in zip(deeds, calls, strict=True):
        try:
            wrong = _misjudged(deed, outcome_of(engine, running))
        except (Refused, AssertionError) as error:
            wrong = str(error)
        if wrong:
            found[f"{deed.mode}-{deed.form}"] = wrong[:500]
    assert found == {}
    assert leftovers(engine, wheels, *packages) == []
    assert_serves(engine)


def _misjudged(deed: Deed, outcome: Outcome) -> str:
    """How a call ended, where that is not how the deed ends one."""
    is_expected = outcome.status in deed.statuses and outcome.evidence.items() >= deed.evidence.items()
    has_run = _has_left_a_trace(outcome) or outcome.status is Status.TIMEOUT
    return "" if is_expected and has_run else f"{outcome.status.value}: {outcome.error}, {outcome.evidence}"


# The end of the engine


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_nothing_of_a_package_outlives_an_engine_that_is_killed(
    setup: Setup, request: pytest.FixtureRequest, wheels: Ground
) -> None:
    """Kill an engine while one of its boxes imports, another waits for calls, and a third runs a call."""
    with _opened(setup, request, wheels) as engine:
        first = hostile("pth", "clings")
        with suppress(Refused):
            look_at_call(engine, first, wheels)
        importing = engine.start(source_of(hostile("import", "hangs")), args={"marks": MARKS, "waits": True})
        running = engine.start(source_of(hostile("import", "clings")), args={"marks": MARKS, "waits": True})
        running.wait_for_output()
        if setup.is_visible:
            assert _happens(lambda: outside.find_waiting(MARKS) is not None or running.has_ended), "no call runs"
            assert _happens(lambda: outside.named(HANGING, token=wheels.token) != []), "no package is imported"
            _note_users(engine, wheels)
        assert not importing.has_ended
        boxes = outside.family(engine.pid, engine.users)
        starts = {pid: _start_of(pid) for pid in boxes}
        engine.process.kill()
        engine.process.wait()
        still = _waits_for_the_end(engine, wheels, starts)
        assert still == [], "these outlived their engine"
        if setup.runtime:
            client = request.getfixturevalue("docker_client")
            mine = {"label": f"{LABELS}pid={engine.pid}"}
            assert outside.wait_until(lambda: client.containers.list(filters=mine) == [], within=AT_LAST_S)
        assert _happens(lambda: groups_of(engine.pid) == []), groups_of(engine.pid)


def _happens(condition: Callable[[], bool]) -> bool:
    return outside.wait_until(condition, within=SOON_S)


def _note_users(engine: HostileEngine, wheels: Ground) -> None:
    for pid in (outside.find_waiting(MARKS), *outside.named(HANGING, token=wheels.token)):
        uid = outside.status_of(pid).get("Uid", "0").split()[0] if pid is not None else "0"
        engine.note_user(int(uid))


def _start_of(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="latin-1") as file:
        return file.read().rpartition(")")[2].split()[19]
    return ""


def _waits_for_the_end(engine: HostileEngine, wheels: Ground, starts: dict[int, str]) -> list[int]:
    def left() -> list[int]:
        return [*(pid for pid, start in starts.items() if _lives(pid, start)), *_runs(engine, wheels)]

    outside.wait_until(lambda: not left(), within=AT_LAST_S)
    found = left()
    for pid in found:  # the next test must not meet it
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return found


def _lives(pid: int, start: str) -> bool:
    status = outside.status_of(pid)
    return bool(status) and not status["State"].startswith("Z") and _start_of(pid) == start != ""
