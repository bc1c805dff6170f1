"""Probe the limits of a container runtime, with containers that go beyond them.

gVisor started with `--ignore-cgroups`, as is widely advised, enforces no limit on memory, processes and processors, and
no gVisor enforces a limit on inodes. So four containers with the program of `limit_probes` run side by side:

    places       disk, inodes, open files, processes of one user, network: one program goes beyond each limit, and
                 reports the refusals
    memory       the kernel kills the container
    processes    the kernel refuses a process. gVisor needs more processes for itself, and crashes when the kernel
                 refuses one. With too few to start, gVisor's launcher would crash and leave the container's control
                 group behind
    cpus         the kernel reports throttling. If a daemon does not pass that on (Podman), the processor time within
                 two seconds decides, which a very busy machine may make look smaller than it is

All containers are gone after about a second. Everything here blocks; `probe_cache` remembers the findings.
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
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.container_config import is_machine, tmpfs_options
from sandbox.backends.container.docker.client import is_podman
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.container.meters import ContainerFacts, belong_to, container_facts
from sandbox.backends.container.probe_cache import LimitName, RuntimeLimits
from sandbox.backends.limit_probes import LimitFinding, source
from sandbox.backends.ownership import ContainerOwner

if TYPE_CHECKING:
    from docker import DockerClient

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
"""The exit codes of a program in Go after the kernel refused a thread."""
_CPUS: Final = 0.1
_MAX_CPUS: Final = 0.15
_WATCHED_S: Final = 2.0
_PATIENCE_S: Final = 30
_EXPIRES_S: Final = 120
_FIRST_USER: Final = 20_000
_USERS: Final = 40_000
_MAX_QUOTED: Final = 200

_PLACES: Final[Mapping[LimitName, tuple[str, str]]] = {
    "disk": (f"disk={_DISK}", f"a tmpfs of {_DISK >> 20} MiB"),
    "inodes": (f"inodes={_INODES}", f"a tmpfs of {_INODES} inodes"),
    "open_files": (f"open_files={_OPEN_FILES}", f"a limit of {_OPEN_FILES} open files"),
    "processes_of_user": (f"processes={_PROCESSES}", f"a limit of {_PROCESSES} processes of its user"),
    "network": ("network=0", "network `none`"),
}
"""For each limit, the program's argument and a description of the setting."""

Findings = dict[LimitName, LimitFinding]


def probe_runtime(
    client: DockerClient, *, image: str, runtime: str, owner: ContainerOwner | None = None
) -> RuntimeLimits:
    """Probe every limit with that runtime; raise `BackendUnavailable` if no container starts.

    The image must have a `python3`.
    """
    launcher = _Launcher(client, image=image, runtime=runtime, owner=owner or ContainerOwner.current())
    probes: tuple[Callable[[_Launcher], Findings], ...] = (_probe_places, _probe_memory, _probe_processes, _probe_cpus)
    with translate_failures(f"starting containers with runtime {runtime}"), ThreadPoolExecutor(len(probes)) as threads:
        findings = [each for found in threads.map(lambda probe: probe(launcher), probes) for each in found.items()]
    return RuntimeLimits(runtime=runtime, findings=dict(findings), found=datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class _Launcher:
    """Start containers that probe limits."""

    client: DockerClient
    image: str
    runtime: str
    owner: ContainerOwner

    @contextmanager
    def container(self, *arguments: str, **limits: Any) -> Iterator[str]:
        """Create a hardened container with the program, without starting it; remove it afterwards."""
        # A random user, because the kernel counts processes per user, too.
        api, user = self.client.api, _FIRST_USER + secrets.randbelow(_USERS)
        created = api.create_container(
            self.image,
            command=list(arguments),
            entrypoint=["python3", "-I", "-S", "-B", "-c", source()],
            user=f"{user}:{user}",
            name=self.owner.new_name(),
            labels=self.owner.labels(expires_at=time.time() + _EXPIRES_S),
            host_config=api.create_host_config(**self._isolation(user), **limits),
        )
        try:
            yield created["Id"]
        finally:
            api.remove_container(created["Id"], force=True, v=True)

    def _isolation(self, user: int) -> dict[str, Any]:
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

    def run(self, *arguments: str, **limits: Any) -> ContainerFacts:
        """Run a container with the program, and return the facts about its end."""
        from requests import RequestException

        with self.container(*arguments, **limits) as container:
            self.client.api.start(container)
            with suppress(RequestException):  # after the timeout, the facts say that it still runs
                self.client.api.wait(container, timeout=_PATIENCE_S)
            return container_facts(self.client, container, with_counters=False)


def _probe_places(launcher: _Launcher) -> Findings:
    from docker.types import Ulimit

    ended = launcher.run(
        *(argument for argument, _ in _PLACES.values()),
        ulimits=[
            Ulimit(name="nofile", soft=_OPEN_FILES, hard=_OPEN_FILES),
            Ulimit(name="nproc", soft=_PROCESSES, hard=_PROCESSES),
        ],
    )
    return {name: _place(ended, number, given) for number, (name, (_, given)) in enumerate(_PLACES.items())}


def _place(ended: ContainerFacts, number: int, given: str) -> LimitFinding:
    bits = (ended.exit_code or 0) - _HELD
    if not 0 <= bits < 1 << len(_PLACES):
        return _undecided(ended, given)
    return _held(f"{given} was kept") if bits >> number & 1 else _broken(f"{given} was not seen to be kept")


def _probe_memory(launcher: _Launcher) -> Findings:
    ended = launcher.run(f"memory={_MEMORY}", mem_limit=_MEMORY, memswap_limit=_MEMORY)
    given = f"a limit of {_MEMORY >> 20} MiB"
    if ended.exit_code == _KILLED:
        reason = "for lack of memory" if ended.out_of_memory else "as the daemon does not say why"
        return {"memory": _held(f"with {given} it was killed {reason}")}
    if ended.exit_code == _HELD:
        return {"memory": _broken(f"with {given} it held four times as much")}
    return {"memory": _undecided(ended, given)}


def _probe_processes(launcher: _Launcher) -> Findings:
    if is_machine(launcher.runtime):
        finding = _probe_tasks_of_a_machine(launcher)
        if finding is not None:
            return {"processes": finding}
    return {"processes": _probe_few_processes(launcher)}


def _probe_tasks_of_a_machine(launcher: _Launcher) -> LimitFinding | None:
    """Return None if the container met no limit: nothing holds it, or its processes are no tasks of the host."""
    ended = launcher.run(f"processes={_PROCESSES_IN_A_MACHINE}", pids_limit=_TASKS_OF_A_MACHINE)
    given = f"a limit of {_TASKS_OF_A_MACHINE} tasks"
    if ended.exit_code in _CRASHED:
        return _held(f"with {given} its kernel crashed when it was refused one")
    if ended.exit_code == _HELD + 1:
        return _held(f"{given} was kept")
    return None if ended.exit_code == _HELD else _undecided(ended, given)


def _probe_few_processes(launcher: _Launcher) -> LimitFinding:
    from docker.errors import APIError

    given = f"a limit of {_PROCESSES} processes"
    try:
        ended = launcher.run(f"processes={_PROCESSES}", pids_limit=_PROCESSES)
    except APIError as error:
        reason = str(error.explanation or error)[:_MAX_QUOTED]
        return _held(f"with {given} the runtime itself cannot start: {reason}")
    if ended.exit_code == _HELD + 1:
        return _held(f"{given} was kept")
    if ended.exit_code == _HELD:
        return _broken(f"{given} was not kept")
    return _undecided(ended, given)


def _probe_cpus(launcher: _Launcher) -> Findings:
    quota = int(_CPUS * 1e9)
    with launcher.container("cpus=1", nano_cpus=quota, mem_limit=_MEMORY, memswap_limit=_MEMORY) as container:
        launcher.client.api.start(container)
        began = time.monotonic()
        inspected = launcher.client.api.inspect_container(container)
        while True:
            stats: dict[str, Any] = launcher.client.api.stats(container, stream=False, one_shot=True)
            passed = time.monotonic() - began
            finding = _judge_cpus(stats, passed_s=passed, are_its_own=belong_to(inspected, stats))
            if finding is not None:
                return {"cpus": finding}


def _judge_cpus(stats: Mapping[str, Any], *, passed_s: float, are_its_own: bool) -> LimitFinding | None:
    """Return what the counters of a busy container prove; None if it is too early to say."""
    given = f"a quota of {_CPUS} processors"
    if not are_its_own:
        return _broken("what it uses is counted in no control group of its own")
    counted = stats.get("cpu_stats") or {}
    throttling = counted.get("throttling_data") or {}
    if throttling.get("throttled_periods"):
        return _held(f"it was held back to {given}")
    if passed_s < (_PATIENCE_S if throttling.get("periods") else _WATCHED_S):
        return None
    used = ((counted.get("cpu_usage") or {}).get("total_usage") or 0) * 1e-9 / passed_s
    evidence = f"with {given} it used {used:.2f}"
    return _held(evidence) if 0 < used < _MAX_CPUS else _broken(evidence)


def _held(evidence: str) -> LimitFinding:
    return LimitFinding(is_enforced=True, evidence=evidence)


def _broken(evidence: str) -> LimitFinding:
    return LimitFinding(is_enforced=False, evidence=evidence)


def _undecided(ended: ContainerFacts, given: str) -> LimitFinding:
    end = f"ended with exit code {ended.exit_code}" if ended.exit_code is not None else f"is {ended.status} still"
    evidence = f"with {given} the probe {end} {ended.error[:_MAX_QUOTED]}".rstrip()
    return LimitFinding(is_enforced=False, is_certain=False, evidence=evidence)
