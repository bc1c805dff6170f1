"""Engines for hostile packages, one for each set-up, each in a process of its own that a test can look at and kill.

The process reads calls from its standard input, a JSON document on each line, runs each in a thread, and writes on its
standard output that a call has printed something, and how it ended. All engines of a run install from one folder of
wheels, and each has small limits, so that an attack that succeeds does no harm.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pytest

from sandbox import Outcome
from tests.checkout import ROOT
from tests.escape.hostile_packages import make_wheels
from tests.unprivileged import AS_NOBODY

MIB: Final = 1 << 20
MEMORY: Final = 96 * MIB
PROCESSES: Final = 32
HASTY_S: Final = 2
PATIENT_S: Final = 40
"""A call that waits to be looked at has time, however busy the machine is; one that is to run out of it has little."""
PATIENCE_S: Final = 60.0
LIMITS: Final[dict[str, Any]] = {
    "memory": MEMORY,
    "disk": 16 * MIB,
    "processes": PROCESSES,
    "open_files": 128,
}
NEW_USERS: Final = 20_000
"""The user ids of boxes begin here; the ids below are the machine's own."""
OF_NOBODY: Final = 65534

_SCRIPT: Final = """
import json, sys, threading
settings = json.loads(sys.argv[1])
from sandbox import Finished, Sandbox
from sandbox.errors import SandboxError
from sandbox.policy import load

def policy_with(limits):
    policy = load(settings["policy"])
    reuse = policy.reuse.model_copy(update=settings["reuse"])
    return policy.model_copy(update={"limits": policy.limits.model_copy(update=limits), "reuse": reuse})

patient, hasty = policy_with(settings["patient"]), policy_with(settings["hasty"])
options = {"store": settings["store"], "artifact_store": settings["store"] + "-artifacts", "policy": patient}
if settings["container"]:
    from sandbox.backends.container.backend import ContainerBackend
    options["backend"] = ContainerBackend(**settings["container"])
lock = threading.Lock()

def say(**fields):
    with lock:
        print(json.dumps(fields), flush=True)

def run(engine, call):
    try:
        policy = hasty if call["is_hasty"] else patient
        for event in engine.stream(call["source"], policy=policy, **call["fields"]):
            if isinstance(event, Finished):
                say(id=call["id"], outcome=json.loads(event.outcome.to_json()))
            elif hasattr(event, "text"):
                say(id=call["id"], printed=event.text)
    except SandboxError as error:
        said = {"type": type(error).__name__, "message": str(error), "remedy": str(error.remedy)}
        say(id=call["id"], error=said)

with Sandbox(**options) as engine:
    threads = []
    for line in sys.stdin:
        threads.append(threading.Thread(target=run, args=(engine, json.loads(line))))
        threads[-1].start()
    for thread in threads:
        thread.join()
"""
_WITHOUT_GROUPS: Final = (
    "unshare",
    "--mount",
    "--propagation=private",
    "sh",
    "-c",
    'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"',
    "sh",
)


@dataclass(frozen=True, slots=True)
class Setup:
    """A backend, the user that the engine runs as, and what it has to count calls with."""

    name: str
    policy: str = "default"
    runtime: str | None = None
    is_root: bool = True
    has_groups: bool = True
    is_visible: bool = True
    """Whether the host shows the tool's process; gVisor has a kernel of its own."""

    @property
    def store(self) -> str:
        """The store that it shares with the set-ups whose environments are the same."""
        return "of-containers" if self.runtime else "of-root" if self.is_root else "of-nobody"

    @property
    def is_warm(self) -> bool:
        """Whether a box serves many calls."""
        return self.policy == "default"

    def __str__(self) -> str:
        return self.name


AS_ROOT: Final = Setup("subprocess-root")
WITHOUT_ROOT: Final = Setup("subprocess-nobody", is_root=False, has_groups=False)
WITHOUT_GROUPS: Final = Setup("subprocess-no-groups", has_groups=False)
KEPT: Final = Setup("runc-warm", runtime="runc")
SINGLE_USE: Final = Setup("runc-single-use", policy="strict", runtime="runc")
IN_GVISOR: Final = Setup("gvisor", policy="strict", runtime="runsc", is_visible=False)
SETUPS: Final = (AS_ROOT, WITHOUT_ROOT, WITHOUT_GROUPS, KEPT, SINGLE_USE, IN_GVISOR)
PROCESS_SETUPS: Final = (AS_ROOT, WITHOUT_ROOT, WITHOUT_GROUPS)


@dataclass
class Refused(Exception):
    """The engine gave no outcome."""

    type: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message} [{self.remedy}]"


class Running:
    """A call that was sent to an engine's process."""

    def __init__(self) -> None:
        self._has_printed, self._has_ended = threading.Event(), threading.Event()
        self._end: dict[str, Any] = {}

    def hear(self, said: dict[str, Any]) -> None:
        """Take note of a word from the engine."""
        if "printed" in said:
            self._has_printed.set()
            return
        self._end = said
        self._has_printed.set()
        self._has_ended.set()

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def wait_for_output(self) -> None:
        """Return once the call has printed something, or has ended."""
        assert self._has_printed.wait(PATIENCE_S), "the call prints nothing"

    def outcome(self) -> Outcome:
        """Wait for the outcome; raise `Refused` without one."""
        assert self._has_ended.wait(PATIENCE_S), "the call does not end"
        if "error" in self._end:
            raise Refused(**self._end["error"])
        return Outcome.from_json(json.dumps(self._end["outcome"]))


class HostileEngine:
    """An engine's process and what it says."""

    def __init__(self, setup: Setup, process: subprocess.Popen[str]) -> None:
        self.setup = setup
        self.process = process
        self.users: set[int] = set()
        self.known: set[int] = set()
        """The processes of its boxes that a test found when it began."""
        self._calls: dict[int, Running] = {}
        self._reader = threading.Thread(target=self._listen, args=(process.stdout,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self, source: str, *, is_hasty: bool = False, **fields: Any) -> Running:
        """Send one call; a hasty one has little time."""
        assert self.process.stdin is not None
        number = len(self._calls)
        running = self._calls[number] = Running()
        call = {"id": number, "source": source, "is_hasty": is_hasty, "fields": fields}
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        return running

    def run(self, source: str, **fields: Any) -> Outcome:
        """The outcome of one call."""
        return self.start(source, **fields).outcome()

    def note_user(self, uid: int) -> None:
        """Remember the user of a box, where no other process of this machine has that one."""
        if uid >= NEW_USERS and uid != OF_NOBODY:
            self.users.add(uid)

    def close(self) -> None:
        """End the engine, and wait until it has."""
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)

    def _listen(self, lines: IO[str] | None) -> None:
        assert lines is not None
        for line in lines:
            said = json.loads(line)
            self._calls[said["id"]].hear(said)
        for running in list(self._calls.values()):
            if not running.has_ended:
                running.hear({"error": {"type": "EngineGone", "message": "the engine has ended", "remedy": ""}})


@dataclass(frozen=True, slots=True)
class Ground:
    """The settings that all engines of a module share."""

    folder: Path
    token: str

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"


@contextmanager
def ground() -> Iterator[Ground]:
    """The wheels, and a folder that every user may enter; `token` marks the processes that the packages start."""
    with tempfile.TemporaryDirectory(prefix="sandbox-hostile-", ignore_cleanup_errors=True) as name:
        folder, token = Path(name), secrets.token_hex(4)
        folder.chmod(0o755)
        (folder / "wheels").mkdir()
        make_wheels(folder / "wheels", token=token, memory=MEMORY, processes=PROCESSES)
        yield Ground(folder, token)


@contextmanager
def opened(setup: Setup, ground: Ground, *, python: Path | None, daemon: str | None) -> Iterator[HostileEngine]:
    """An engine of that set-up. `python` is an interpreter for every user, `daemon` the address of a Docker daemon."""
    store = ground.folder / f"store-{setup.store}"
    store.mkdir(exist_ok=True)
    options: dict[str, Any] = {"cwd": ROOT}
    command = [sys.executable]
    if not setup.is_root:
        assert python is not None
        if AS_NOBODY:
            os.chown(store, OF_NOBODY, OF_NOBODY)
        options, command = {"cwd": "/", **AS_NOBODY}, [str(python), "-I"]
    elif not setup.has_groups:
        command = [*_WITHOUT_GROUPS, sys.executable]
    settings = {
        "policy": setup.policy,
        "patient": {**LIMITS, "wall": PATIENT_S, "cpu": 2 * PATIENT_S},
        "hasty": {**LIMITS, "wall": HASTY_S, "cpu": HASTY_S},
        "reuse": {} if setup.is_warm else {"ahead": 0},
        "store": str(store / "kept"),
        "container": {"host": daemon, "runtime": setup.runtime} if setup.runtime else None,
    }
    process = subprocess.Popen(
        [*command, "-c", _SCRIPT, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(ground),
        **options,
    )
    engine = HostileEngine(setup, process)
    try:
        yield engine
    finally:
        engine.close()
        assert process.stdout is not None
        process.stdout.close()


def _environment(ground: Ground) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "SANDBOX_"))}
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(ground.wheels), "PIP_CONFIG_FILE": os.devnull}
    return {**kept, **settings, "UV_NO_CONFIG": "1", "NETRC": os.devnull, "HOME": str(ground.folder)}


Open = Callable[[Setup], HostileEngine]


def setups(*chosen: Setup) -> pytest.MarkDecorator:
    """Run a test for each of these, which its fixture `engine` opens."""
    return pytest.mark.parametrize("engine", chosen or SETUPS, ids=str, indirect=True)
