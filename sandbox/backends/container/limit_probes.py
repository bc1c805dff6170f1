"""Whether a runtime's limits bite: tried with containers made to go beyond them.

A runtime may take every limit it is given and keep none. gVisor started with `--ignore-cgroups`, as is widely advised,
keeps none on memory, processes and processors, and no gVisor keeps one on inodes. Asking a daemon tells what was asked
for; only a canary tells what holds:

    walls        disk, inodes, open files, processes of one user, network: one program goes beyond each, and says what
                 it got
    memory       the kernel kills it
    processes    it is refused one. gVisor gets more, which it needs itself, and crashes when it is refused one. Were
                 it given too few to start, its own launcher would crash and leave the container's control group
    cpus         the kernel says that it was held back. Where a daemon does not tell that (Podman), what was used in
                 two seconds does, which a very busy machine may make look smaller than it is

They run side by side and are gone after a second. Everything here blocks; `proofs` remembers what was found.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.container_config import is_machine, tmpfs_options
from sandbox.backends.container.meters import Facts, are_its_own, facts
from sandbox.backends.container.ownership import Owner
from sandbox.backends.container.probe_cache import Finding, LimitName, Proof
from sandbox.backends.docker.daemon import is_podman, translated

if TYPE_CHECKING:
    from docker import DockerClient

PROGRAM: Final = Path(__file__).with_name("limit_probe_program.py")
_HELD: Final = 64  # as in the program
_KILLED: Final = 137
_MEMORY: Final = 64 << 20
_DISK: Final = 1 << 20
_INODES: Final = 16
_OPEN_FILES: Final = 128  # crun itself needs some 50
_PROCESSES: Final = 16
_TASKS_OF_A_MACHINE: Final = 128  # gVisor with an idle Python has 55
_PROCESSES_IN_A_MACHINE: Final = 32  # the program tries four times as many
_CRASHED: Final = (2, 128 + signal.SIGABRT)
"""How a program in Go ends that the kernel refuses a thread."""
_CPUS: Final = 0.1
_MOST_CPUS: Final = 0.15
_WATCHED_S: Final = 2.0
_PATIENCE_S: Final = 30
_EXPIRES_S: Final = 120
_FIRST_USER: Final = 20_000
_USERS: Final = 40_000
_MOST_TOLD: Final = 200

_WALLS: Final[Mapping[LimitName, tuple[str, str]]] = {
    "disk": (f"disk={_DISK}", f"a tmpfs of {_DISK >> 20} MiB"),
    "inodes": (f"inodes={_INODES}", f"a tmpfs of {_INODES} inodes"),
    "open_files": (f"open_files={_OPEN_FILES}", f"a limit of {_OPEN_FILES} open files"),
    "processes_of_user": (f"processes={_PROCESSES}", f"a limit of {_PROCESSES} processes of its user"),
    "network": ("alone=0", "network `none`"),
}
"""{limit: what the program is asked to try, what it was given}"""

Findings = dict[LimitName, Finding]


def prove(client: DockerClient, *, image: str, runtime: str, owner: Owner | None = None) -> Proof:
    """Try every limit with that runtime. The image has a `python3`; raises `BackendUnavailable` when nothing starts."""
    cage = _Cage(client, image=image, runtime=runtime, owner=owner or Owner.current())
    tries: tuple[Callable[[_Cage], Findings], ...] = (_try_walls, _try_memory, _try_processes, _try_cpus)
    with translated(f"starting containers with runtime {runtime}"), ThreadPoolExecutor(len(tries)) as threads:
        findings = [each for found in threads.map(lambda one: one(cage), tries) for each in found.items()]
    return Proof(runtime=runtime, findings=dict(findings), found=datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class _Cage:
    """Where canaries are sent."""

    client: DockerClient
    image: str
    runtime: str
    owner: Owner

    @contextmanager
    def container(self, *asked: str, **limits: Any) -> Iterator[str]:
        """A hardened container, not started yet, that tries what is asked; gone afterwards."""
        api, user = self.client.api, _FIRST_USER + secrets.randbelow(_USERS)  # processes are counted by user, too
        created = api.create_container(
            self.image,
            command=list(asked),
            entrypoint=["python3", "-I", "-S", "-B", "-c", PROGRAM.read_text()],
            user=f"{user}:{user}",
            name=self.owner.new_name(),
            labels=self.owner.labels(expires_at=time.time() + _EXPIRES_S),
            host_config=api.create_host_config(**self._walls(user), **limits),
        )
        try:
            yield created["Id"]
        finally:
            api.remove_container(created["Id"], force=True, v=True)

    def _walls(self, user: int) -> dict[str, Any]:
        options = tmpfs_options(_DISK, _INODES, user=user, is_podman=is_podman(self.client))
        return {
            "tmpfs": {"/work": options},
            "runtime": self.runtime,
            "init": True,
            "network_mode": "none",
            "ipc_mode": "private",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "log_config": {"Type": "none"},
        }

    def send(self, *asked: str, **limits: Any) -> Facts:
        """How a container ended that tries what is asked, if it did."""
        from requests import RequestException

        with self.container(*asked, **limits) as container:
            self.client.api.start(container)
            with suppress(RequestException):  # it takes too long
                self.client.api.wait(container, timeout=_PATIENCE_S)
            return facts(self.client, container, with_counters=False)


def _try_walls(cage: _Cage) -> Findings:
    from docker.types import Ulimit

    ended = cage.send(
        *(asked for asked, _ in _WALLS.values()),
        ulimits=[
            Ulimit(name="nofile", soft=_OPEN_FILES, hard=_OPEN_FILES),
            Ulimit(name="nproc", soft=_PROCESSES, hard=_PROCESSES),
        ],
    )
    return {name: _wall(ended, number, given) for number, (name, (_, given)) in enumerate(_WALLS.items())}


def _wall(ended: Facts, number: int, given: str) -> Finding:
    bits = (ended.exit_code or 0) - _HELD
    if not 0 <= bits < 1 << len(_WALLS):
        return _undecided(ended, given)
    return _holds(f"{given} was kept") if bits >> number & 1 else _loose(f"{given} was not seen to be kept")


def _try_memory(cage: _Cage) -> Findings:
    ended = cage.send(f"memory={_MEMORY}", mem_limit=_MEMORY, memswap_limit=_MEMORY)
    given = f"a limit of {_MEMORY >> 20} MiB"
    if ended.exit_code == _KILLED:
        told = "for lack of memory" if ended.out_of_memory else "as the daemon does not say why"
        return {"memory": _holds(f"with {given} it was killed {told}")}
    if ended.exit_code == _HELD:
        return {"memory": _loose(f"with {given} it held four times as much")}
    return {"memory": _undecided(ended, given)}


def _try_processes(cage: _Cage) -> Findings:
    if is_machine(cage.runtime):
        finding = _try_tasks_of_a_machine(cage)
        if finding is not None:
            return {"processes": finding}
    return {"processes": _try_few_processes(cage)}


def _try_tasks_of_a_machine(cage: _Cage) -> Finding | None:
    """None where it met no limit: nothing holds it, or its processes are no tasks of the host."""
    ended = cage.send(f"processes={_PROCESSES_IN_A_MACHINE}", pids_limit=_TASKS_OF_A_MACHINE)
    given = f"a limit of {_TASKS_OF_A_MACHINE} tasks"
    if ended.exit_code in _CRASHED:
        return _holds(f"with {given} its kernel crashed when it was refused one")
    if ended.exit_code == _HELD + 1:
        return _holds(f"{given} was kept")
    return None if ended.exit_code == _HELD else _undecided(ended, given)


def _try_few_processes(cage: _Cage) -> Finding:
    from docker.errors import APIError

    given = f"a limit of {_PROCESSES} processes"
    try:
        ended = cage.send(f"processes={_PROCESSES}", pids_limit=_PROCESSES)
    except APIError as error:
        said = str(error.explanation or error)[:_MOST_TOLD]
        return _holds(f"with {given} the runtime itself cannot start: {said}")
    if ended.exit_code == _HELD + 1:
        return _holds(f"{given} was kept")
    if ended.exit_code == _HELD:
        return _loose(f"{given} was not kept")
    return _undecided(ended, given)


def _try_cpus(cage: _Cage) -> Findings:
    quota = int(_CPUS * 1e9)
    with cage.container("cpus=1", nano_cpus=quota, mem_limit=_MEMORY, memswap_limit=_MEMORY) as container:
        cage.client.api.start(container)
        began = time.monotonic()
        inspected = cage.client.api.inspect_container(container)
        while True:
            stats: dict[str, Any] = cage.client.api.stats(container, stream=False, one_shot=True)
            passed = time.monotonic() - began
            finding = _judge_cpus(stats, passed_s=passed, are_its=are_its_own(stats, inspected=inspected))
            if finding is not None:
                return {"cpus": finding}


def _judge_cpus(stats: Mapping[str, Any], *, passed_s: float, are_its: bool) -> Finding | None:
    """What the counters of a container prove that computes with all its might; None: too early to tell."""
    given = f"a quota of {_CPUS} processors"
    if not are_its:
        return _loose("what it uses is counted in no control group of its own")
    counted = stats.get("cpu_stats") or {}
    held_back = counted.get("throttling_data") or {}
    if held_back.get("throttled_periods"):
        return _holds(f"it was held back to {given}")
    if passed_s < (_PATIENCE_S if held_back.get("periods") else _WATCHED_S):
        return None
    used = ((counted.get("cpu_usage") or {}).get("total_usage") or 0) * 1e-9 / passed_s
    told = f"with {given} it used {used:.2f}"
    return _holds(told) if 0 < used < _MOST_CPUS else _loose(told)


def _holds(evidence: str) -> Finding:
    return Finding(is_enforced=True, evidence=evidence)


def _loose(evidence: str) -> Finding:
    return Finding(is_enforced=False, evidence=evidence)


def _undecided(ended: Facts, given: str) -> Finding:
    how = f"ended with exit code {ended.exit_code}" if ended.exit_code is not None else f"is {ended.status} still"
    told = f"with {given} the canary {how} {ended.error[:_MOST_TOLD]}".rstrip()
    return Finding(is_enforced=False, is_certain=False, evidence=told)
