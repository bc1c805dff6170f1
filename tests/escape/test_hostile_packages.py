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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from sandbox import Outcome, Status
from tests.end_to_end.calls import groups_of
from tests.end_to_end.packages import requiring
from tests.escape import outside_view as outside
from tests.escape.hostile_engines import (
    AS_ROOT,
    IN_GVISOR,
    KEPT,
    MEMORY,
    OF_NOBODY,
    PROCESSES,
    SETUPS,
    SINGLE_USE,
    Ground,
    HostileEngine,
    Open,
    Refused,
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
    Hostile,
)
from tests.escape.outside_view import Seen

pytestmark = [pytest.mark.slow, pytest.mark.root]

MARKS: Final = sorted(random.SystemRandom().sample(range(36, 64), 4))
"""The signals that a waiting tool of this test run blocks, which is how the host's `/proc` shows where it is."""
SOON_S: Final = 5.0
LOOKS: Final = 5
BETWEEN_LOOKS_S: Final = 0.05
OURS: Final = 8
"""Processes of the runner that an exhausted box may have: zygote, guards, and the children that wait for calls."""
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
    module = sys.modules.get({name!r})
    return {{"report": module and module.report(), "landlock": bites}}
"""
SERVE: Final = "import honest\ndef tool():\n    return 'served'\n"


# Engines


@pytest.fixture(scope="module")
def wheels() -> Iterator[Ground]:
    """All hostile packages, made once."""
    with ground() as made:
        yield made


@pytest.fixture(scope="module")
def open_engine(request: pytest.FixtureRequest, wheels: Ground) -> Iterator[Open]:
    """One engine of each set-up for all tests, opened when it is first asked for."""
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
    return open_engine(request.param)


@pytest.fixture(autouse=True)
def _nothing_left_for_the_next_test(wheels: Ground) -> Iterator[None]:
    """What an attack left behind is that test's failure, and no other's."""
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


# What all tests ask


def source_of(hostile: Hostile) -> str:
    """A tool that requires the package, waits to be looked at, and returns what the package reports."""
    start = f"import {hostile.name}\n" if hostile.form == "import" else ""
    return requiring((hostile.name,), CALL.format(start=start, name=hostile.name))


@dataclass
class Looked:
    """One call that was looked at while it ran."""

    outcome: Outcome
    seen: Seen | None = None
    strays: list[str] = field(default_factory=list)
    relatives: list[str] = field(default_factory=list)


def look_at_call(engine: HostileEngine, source: str, *, token: str) -> Looked:
    """Run a call, and look at its process from outside while it waits."""
    is_visible = engine.setup.is_visible
    running = engine.start(source, args={"marks": MARKS, "waits": is_visible})
    looked: list[Any] = [None, [], []]
    if is_visible:
        running.wait_for_output()
        outside.wait_until(lambda: running.has_ended or outside.find_waiting(MARKS) is not None, within=SOON_S)
        pid = outside.find_waiting(MARKS)
        if pid is not None:
            try:
                looked = [outside.look(pid), _strays(pid, token), _relatives(engine, pid)]
            finally:
                os.kill(pid, MARKS[0])
    outcome = running.outcome()
    found = Looked(outcome, *looked)
    if found.seen is not None:
        engine.note_user(found.seen.uid)
    elif outcome.receipt is not None and outcome.receipt.user.isdigit():
        engine.note_user(int(outcome.receipt.user))
    return found


def _strays(pid: int, token: str) -> list[str]:
    """The processes that a package left, and that are not in the pid namespace of the call which runs."""
    own = outside.namespaces_of(pid).get("pid")
    left = outside.named(SURVIVOR, token=token)
    return [f"process {each}" for each in left if outside.namespaces_of(each).get("pid") != own]


def _relatives(engine: HostileEngine, pid: int) -> list[str]:
    """The processes of the engine that share memory or descriptors with the call's."""
    others = outside.family(engine.pid, engine.users) - {pid}
    return [f"{what} with {other}" for other in others for what in outside.shared_with(pid, other)]


def assert_blames_no_host(refused: Refused) -> None:
    """Whatever a package does, the host is as able to run calls as before."""
    assert refused.type not in HOST_BLAMED, refused
    assert not [word for word in HOST_WORDS if word in str(refused)], refused


def assert_receipt_is_true(looked: Looked, engine: HostileEngine) -> None:
    receipt = looked.outcome.receipt
    assert receipt is not None
    value = looked.outcome.value
    if isinstance(value, dict) and not engine.setup.runtime == "runsc":
        assert receipt.layers["landlock"].in_force <= value["landlock"], "Landlock does not bite"
    if looked.seen is not None:
        assert outside.complaints(receipt, looked.seen, engine=engine.pid) == []


def assert_nothing_runs(engine: HostileEngine, token: str) -> None:
    """Nothing that the environment started is left, and what waits for calls takes no processor time."""
    assert outside.wait_until(lambda: not outside.named(SURVIVOR, token=token), within=SOON_S), (
        f"still there: {outside.named(SURVIVOR, token=token)}"
    )
    assert not outside.named(HANGING, token=token)
    assert _comes_to_rest(engine), "an idle box takes processor time"


def _comes_to_rest(engine: HostileEngine) -> bool:
    """Whether the boxes take no processor time over a number of looks, one after the other, sooner or later."""
    for _ in range(8):
        before = outside.ticks(outside.family(engine.pid, engine.users))
        for _ in range(LOOKS):
            time.sleep(BETWEEN_LOOKS_S)
        if outside.ticks(outside.family(engine.pid, engine.users)) - before <= 1:
            return True
    return False


def assert_serves(engine: HostileEngine) -> None:
    """The next call, of a tool with another environment, is served."""
    assert engine.run(requiring(("honest",), SERVE)).value == "served"


def _left_of(engine: HostileEngine, wheels: Ground) -> list[int]:
    """What still runs of an engine that has ended."""
    outside.wait_until(lambda: not _runs(engine, wheels), within=SOON_S)
    return _runs(engine, wheels)


def _runs(engine: HostileEngine, wheels: Ground) -> list[int]:
    return [*_named(wheels), *(outside.family(-1, engine.users) if engine.users else ())]


def _named(wheels: Ground) -> list[int]:
    return [pid for start in (SURVIVOR, HANGING, HOLDER) for pid in outside.named(start, token=wheels.token)]


# Packages that let their calls go on


QUIET: Final = ("strips", "voids", "forges", "reaches", "survives", "lurks", "wakes", "shares", "clones")
OFTEN: Final[dict[Setup, tuple[str, ...]]] = {
    IN_GVISOR: ("strips", "forges", "reaches", "survives"),
    SINGLE_USE: ("strips", "forges", "reaches", "survives", "lurks"),
}
"""Where a call has a box of its own, modes that aim at the next call of a box have no victim."""


def _quiet() -> Iterator[Any]:
    for setup in SETUPS:
        for mode in OFTEN.get(setup, QUIET):
            forms: tuple[Any, ...] = ("import", "pth")
            for form in (*forms, "sitecustomize") if (setup, mode) == (AS_ROOT, "strips") else forms:
                yield pytest.param(setup, Hostile(mode, form), id=f"{setup}-{mode}-{form}")


@pytest.mark.parametrize(("engine", "hostile"), list(_quiet()), indirect=["engine"])
def test_calls_stand_behind_the_walls_of_their_receipts(
    engine: HostileEngine, hostile: Hostile, wheels: Ground
) -> None:
    calls = 2 if engine.setup.is_warm else 1
    has_run = False
    for _ in range(calls):
        try:
            looked = look_at_call(engine, source_of(hostile), token=wheels.token)
        except Refused as refused:
            assert_blames_no_host(refused)
            raise
        has_run |= _has_run(looked.outcome, hostile)
        assert_receipt_is_true(looked, engine)
        assert looked.strays == []
        assert looked.relatives == []
        _assert_keeps_to_itself(looked, hostile)
    assert has_run, "the attack did not run"
    assert_nothing_runs(engine, wheels.token)
    assert_serves(engine)


def _has_run(outcome: Outcome, hostile: Hostile) -> bool:
    """Whether there is proof that the package's code ran, and did not break by itself."""
    if FORGED in (outcome.value, outcome.stdout.text) or RAN in outcome.stdout.text:
        return True
    value: Any = outcome.value
    report = value["report"] if isinstance(value, dict) else None
    assert report is not None, f"the attack did not run: {outcome.to_json()[:2000]}"
    return report["mode"] == hostile.mode and "done" in report


def _assert_keeps_to_itself(looked: Looked, hostile: Hostile) -> None:
    """What the attack itself says that it gained; the word of an attacker counts against the walls only."""
    outcome = looked.outcome
    if hostile.mode == "forges":  # a package may forge what its own call returns, and nothing else
        assert outcome.status in (Status.OK, Status.EXCEPTION, Status.EXITED, Status.CRASHED), outcome.to_json()
        assert (outcome.usage.cpu_s or 0) < 1e5
        return
    assert outcome.status is Status.OK, outcome.to_json()[:2000]
    value: Any = outcome.value
    if hostile.mode == "reaches":
        done, later = value["report"]["done"], value["report"]["later"]
        assert [*done["gained"], *done["natively"], *later["gained"], *later["natively"]] == []
    if hostile.mode == "shares":
        assert value["report"]["later"] == {"found": "", "heard": None}
        assert looked.seen is None or looked.seen.shared_memory == ()


@setups(AS_ROOT, KEPT)
@pytest.mark.parametrize("hostile", [Hostile("lurks", "import"), Hostile("clones", "import")], ids=str)
def test_a_retired_environment_is_named_by_the_outcome(
    engine: HostileEngine, hostile: Hostile, wheels: Ground
) -> None:
    outcomes = [look_at_call(engine, source_of(hostile), token=wheels.token).outcome for _ in range(2)]
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 2
    for outcome in outcomes:
        named = outcome.evidence.get("environment")
        assert outcome.timing.preloaded or named is None or isinstance(named, dict)


# Packages that take too much


@dataclass(frozen=True, slots=True)
class Excess:
    """What a package takes, and how its calls may end for it."""

    mode: str
    statuses: tuple[Status, ...]


EXCESSES: Final = (
    Excess("bombs", (Status.OK, Status.LIMIT, Status.TIMEOUT)),
    Excess("swells", (Status.MEMORY, Status.EXCEPTION, Status.CRASHED)),
    Excess("scatters", (Status.OK, Status.MEMORY, Status.CRASHED)),
    Excess("hoards", (Status.OK, Status.MEMORY, Status.LIMIT, Status.CRASHED)),
)
OFTEN_EXCESSIVE: Final = {SINGLE_USE: ("bombs", "swells"), IN_GVISOR: ("bombs", "swells")}


def _excesses() -> Iterator[Any]:
    for setup in SETUPS:
        for excess in EXCESSES:
            if excess.mode in OFTEN_EXCESSIVE.get(setup, (excess.mode,)):
                for form in ("import", "pth") if setup in (AS_ROOT, KEPT) else ("import",):
                    hostile = Hostile(excess.mode, form)  # type: ignore[arg-type]
                    yield pytest.param(setup, hostile, excess, id=f"{setup}-{hostile}")


@pytest.mark.parametrize(("engine", "hostile", "excess"), list(_excesses()), indirect=["engine"])
def test_a_package_takes_no_more_than_a_call_may(
    engine: HostileEngine, hostile: Hostile, excess: Excess, wheels: Ground
) -> None:
    with _sampling(wheels.token) as most:
        outcome = _run_to_the_end(engine, hostile)
    assert _has_left_a_trace(outcome, most), "the attack did not run"
    assert outcome.status in excess.statuses, outcome.to_json()[:2000]
    assert most["processes"] <= PROCESSES + OURS, most
    if engine.setup.has_groups:
        assert most["bytes"] <= MEMORY + outside.ALLOWANCE, most
    else:  # what watches looks now and then: more may be taken for a moment, and is never kept
        assert most["steady bytes"] <= MEMORY, most
    value: Any = outcome.value
    if outcome.status is Status.OK and value["report"]:
        assert value["report"]["done"].get("bytes", 0) <= MEMORY, "the package holds what no limit counts"
    assert_nothing_runs(engine, wheels.token)
    assert_serves(engine)


@contextmanager
def _sampling(token: str) -> Iterator[Counter[str]]:
    """The most processes that packages had at any look, their memory, and the least of it over several looks."""
    most: Counter[str] = Counter()
    is_over = threading.Event()

    def sample() -> None:
        last: list[int] = []
        while not is_over.wait(BETWEEN_LOOKS_S):
            named = outside.named(SURVIVOR, token=token)
            holders = outside.named(HOLDER, token=token)
            taken = outside.own_bytes(holders)
            last = [*last[-2 * LOOKS + 1 :], taken]
            most["processes"] = max(most["processes"], len(named), len(holders))
            most["bytes"] = max(most["bytes"], taken)
            most["steady bytes"] = max(most["steady bytes"], min(last) if len(last) == 2 * LOOKS else 0)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def _run_to_the_end(engine: HostileEngine, hostile: Hostile) -> Outcome:
    """The outcome of a call that waits for nothing; an error that blames the host is a failure of its own."""
    try:
        outcome = engine.run(source_of(hostile), args={"marks": MARKS, "waits": False})
    except Refused as refused:
        assert_blames_no_host(refused)
        raise
    if outcome.receipt is not None and outcome.receipt.user.isdigit():
        engine.note_user(int(outcome.receipt.user))
    said = f"{outcome.error} {outcome.evidence}"
    assert not [word for word in HOST_WORDS if word in said], said
    return outcome


def _has_left_a_trace(outcome: Outcome, most: Counter[str] | None = None) -> bool:
    """Whether anything shows that the package's code ran: its words, its report, its codes, or its processes."""
    value: Any = outcome.value
    has_report = isinstance(value, dict) and value["report"] is not None
    codes = (EXIT_CODE, EXEC_CODE, FORK_FAILURE_CODE)
    has_code = outcome.evidence.get("exit_code") in codes or outcome.evidence.get("signal") == "SIGKILL"
    has_processes = most is not None and most["processes"] > 0
    return has_report or has_code or has_processes or RAN in outcome.stdout.text + outcome.stderr.text


# Packages that end or stop the process which imports them


@dataclass(frozen=True, slots=True)
class Deed:
    """A way to end, and how a call ends that meets it behind its own walls."""

    mode: str
    statuses: tuple[Status, ...]
    evidence: dict[str, object] = field(default_factory=dict)
    setups: tuple[Setup, ...] = SETUPS


FAST: Final = tuple(setup for setup in SETUPS if setup is not IN_GVISOR)
DEEDS: Final = (
    Deed("exits", (Status.EXITED,), {"exit_code": EXIT_CODE}, FAST),
    Deed("raises", (Status.EXITED,), {"exit_code": EXIT_CODE}, (AS_ROOT, KEPT)),
    Deed("dies", (Status.CRASHED,), {"signal": "SIGKILL"}),
    Deed("stops", (Status.TIMEOUT,), {}, (AS_ROOT, SINGLE_USE)),
    Deed("hangs", (Status.TIMEOUT,), {}, (AS_ROOT, KEPT)),
    Deed("closes", (Status.OK, Status.EXITED, Status.EXCEPTION, Status.CRASHED), {}, FAST),
    Deed("execs", (Status.EXITED,), {"exit_code": EXEC_CODE}),
    Deed("lowers", (Status.OK, Status.EXCEPTION, Status.EXITED, Status.CRASHED, Status.LIMIT), {}, FAST),
    Deed("blames", (Status.EXITED,), {"exit_code": FORK_FAILURE_CODE}),
)


def _deeds() -> Iterator[Any]:
    for deed in DEEDS:
        for setup in deed.setups:
            forms = ("import", "pth") if setup in (AS_ROOT, KEPT) and deed.mode not in ("hangs", "stops") else ("pth",)
            for form in forms:
                hostile = Hostile(deed.mode, form)  # type: ignore[arg-type]
                yield pytest.param(setup, hostile, deed, id=f"{setup}-{hostile}")


@pytest.mark.parametrize(("engine", "hostile", "deed"), list(_deeds()), indirect=["engine"])
def test_a_package_that_ends_its_process_ends_its_own_call_at_most(
    engine: HostileEngine, hostile: Hostile, deed: Deed, wheels: Ground
) -> None:
    outcome = _run_to_the_end(engine, hostile)
    is_timeout = outcome.status is Status.TIMEOUT
    assert _has_left_a_trace(outcome) or is_timeout, f"the attack did not run: {outcome.to_json()[:2000]}"
    assert outcome.status in deed.statuses, outcome.to_json()[:2000]
    assert outcome.evidence.items() >= deed.evidence.items()
    assert_nothing_runs(engine, wheels.token)
    assert_serves(engine)


# The end of the engine


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_nothing_of_a_package_outlives_an_engine_that_is_killed(
    setup: Setup, request: pytest.FixtureRequest, wheels: Ground
) -> None:
    """One engine is killed while a box of its imports, another waits for calls, and a third runs a call."""
    with _opened(setup, request, wheels) as engine:
        first = Hostile("clings", "pth")
        with suppress(Refused):
            look_at_call(engine, source_of(first), token=wheels.token)
        importing = engine.start(source_of(Hostile("hangs", "import")), args={"marks": MARKS, "waits": True})
        running = engine.start(source_of(Hostile("clings", "import")), args={"marks": MARKS, "waits": True})
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

    outside.wait_until(lambda: not left(), within=SOON_S)
    found = left()
    for pid in found:  # the next test must not meet it
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return found


def _lives(pid: int, start: str) -> bool:
    status = outside.status_of(pid)
    return bool(status) and not status["State"].startswith("Z") and _start_of(pid) == start != ""
