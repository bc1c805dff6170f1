"""Attacks by a tool's requirements: code of a package that runs on import, or when Python starts.

This module builds the wheels, of pure Python and always the same, so that no index is asked and a store keeps one
environment for each. The package replaces the functions of the runner that it finds, starts processes that outlive it,
and takes memory and processes beyond the limits. `look` observes the effects on the host while a call runs, and the
campaign compares them with the call's receipt.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from sandbox.doctor.attacks.attack import Attack, Program, Verdict, ending_of
from sandbox.outcome import EnforcedBy, Outcome, Receipt, Status
from sandbox.policy import Policy

_MIB: Final = 1 << 20
_EPOCH: Final = (2020, 1, 1, 0, 0, 0)
_MEMORY: Final = 96 * _MIB
_PROCESSES: Final = 24
_OURS: Final = 8
"""The runner's own processes in a box whose call has as many as allowed."""
_HELD_BY_EACH: Final = _MEMORY // 2
TOOL: Final = "sbx-atk-tool"
HOLDER: Final = "sbx-atk-holder"
SLEEPER: Final = "sbx-atk-sleeper"
SURVIVOR: Final = "sandbox-attack-survivor"
_NAMESPACES: Final = {"user": "user", "mount": "mnt", "pid": "pid", "network": "net", "ipc": "ipc", "uts": "uts"}
_HELD: Final = ("CapInh", "CapPrm", "CapEff", "CapAmb")

_PACKAGE: Final = f"""
import ctypes, gc, os, sys, time

WALLS = ("call_walls", "limits", "capabilities", "seccomp", "landlock", "measure", "verification")
libc = ctypes.CDLL(None)

def nothing(*arguments, **fields):
    return None

def replace():
    # whatever puts up or measures walls in this interpreter, by way of frames and of the garbage collector
    frame, found, seen, count = sys._getframe(), [], set(), 0
    while frame is not None:
        found.append(frame.f_globals)
        frame = frame.f_back
    found += [vars(each) for each in gc.get_objects() if type(each) is type(sys)]
    while found:
        names = found.pop()
        if id(names) in seen:
            continue
        seen.add(id(names))
        found += [vars(each) for each in list(names.values()) if type(each) is type(sys)]
        if str(names.get("__name__")).rpartition(".")[2] in WALLS:
            for name, value in list(names.items()):
                if type(value) is type(nothing):
                    names[name], count = nothing, count + 1
    return count

def stay():
    # a child of a child, in a session of its own, which nothing waits for
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", [{SURVIVOR!r}, "600"])
        os._exit(0)
    os.waitpid(child, 0)

def hold(name, size):
    if os.fork() == 0:
        libc.prctl(15, name.encode(), 0, 0, 0)
        kept = bytearray(b"x") * size
        time.sleep(600 if kept else 0)
        os._exit(0)

def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        return False
    return True

REPLACED = replace()
STARTED = [attempt(stay)]
STARTED += [attempt(hold, {HOLDER!r}, {_HELD_BY_EACH}) for _ in range(6)]
STARTED += [attempt(hold, {SLEEPER!r}, 1) for _ in range({2 * _PROCESSES})]
"""
_TOOL: Final = f"""
import ctypes, sys, time
{{start}}
def attack() -> dict:
    ctypes.CDLL(None).prctl(15, {TOOL!r}.encode(), 0, 0, 0)
    sys.stdout.write("here\\n")
    sys.stdout.flush()
    time.sleep(1)
    package = sys.modules.get({{name!r}})
    return {{{{"started": sum(package.STARTED) if package else 0}}}}
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The host's view of a running call: its process, if visible, and the resources of its packages."""

    status: dict[str, str] = field(default_factory=dict)
    """The fields of `/proc/<pid>/status` of the call's process; empty if the host hides it."""
    shared: tuple[str, ...] = ()
    """The kinds of namespaces that this process shares with the call's, as far as this user may see."""
    processes: int = 0
    memory: int = 0

    def complaints(self, receipt: Receipt, status: Status = Status.OK) -> list[str]:
        """Return resources of packages beyond the limits, and false claims of the receipt of a call that ended so."""
        found = [f"the receipt says {claim}, and the kernel shows otherwise" for claim in self._untrue(receipt)]
        if self.processes > _PROCESSES + _OURS:
            found.append(f"its packages had {self.processes} processes where {_PROCESSES} are allowed")
        keeper = receipt.limits["memory"].enforced_by if "memory" in receipt.limits else None
        # A watcher ends a call a moment after it passes its limit, and this look may fall into that moment.
        is_ended_for_it = keeper is EnforcedBy.WATCHER and status in (Status.MEMORY, Status.LIMIT)
        if self.memory > _MEMORY and not is_ended_for_it:
            found.append(f"its packages held {self.memory // _MIB} MiB where {_MEMORY // _MIB} are allowed")
        return found

    def _untrue(self, receipt: Receipt) -> Iterator[str]:
        layers = {name: state for name, state in receipt.layers.items() if state.in_force}
        counted = re.search(r"(\d+) filters?", layers["seccomp"].detail) if "seccomp" in layers else None
        if counted and self.status.get("Seccomp_filters", counted[1]) != counted[1]:
            yield counted[0]
        if "capabilities" in layers and any(int(self.status.get(name, "0"), 16) for name in _HELD):
            yield "that no capability is held"
        if "no_new_privs" in layers and self.status.get("NoNewPrivs", "1") != "1":
            yield "no_new_privs"
        for kind in self.shared:
            if f"{kind}_namespace" in layers:
                yield f"that the {kind} namespace is not the host's"


def make_wheels(folder: Path) -> None:
    """Make the wheels that the attacks require, in a folder of wheels."""
    for program in PACKAGES[0].programs:
        name = _name(program)
        files = {f"{name}.py": _PACKAGE}
        if program.starts_with_python:
            files[f"{name}.pth"] = f"import {name}\n"
        _make_wheel(folder, name, files)


def _make_wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    about = f"{name}-1.0.dist-info"
    whole = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: sandbox\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in whole.items())
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in {**whole, f"{about}/RECORD": f"{record}{about}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def policy_with(policy: Policy, folder: Path) -> Policy:
    """The policy with small limits for whole boxes, and with this folder as the only source of packages."""
    limits = policy.limits.model_copy(
        update={"memory": min(policy.limits.memory, _MEMORY), "processes": min(policy.limits.processes, _PROCESSES)}
    )
    limits = limits.model_copy(update={"disk": min(limits.disk, limits.memory // 2), "wall": min(limits.wall, 20.0)})
    update = {"offline": True, "wheelhouse": (str(folder),), "allow": (), "deny": (), "exclude_newer": 0.0}
    supply = policy.supply.model_copy(update=update)
    return policy.model_copy(update={"limits": limits, "supply": supply})


def look() -> Look:
    """Look for the call's process and the resources of packages, on this host."""
    # The largest share of any control group counts, because a box that is opened for the next call has its own limits.
    tool = 0
    processes: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == TOOL:
            tool = process.pid
        if not is_marked(process):
            continue
        group = _groups(process.pid)
        processes[group] += 1
        if process.info["name"] == HOLDER:
            with suppress(psutil.Error):  # a fork shares the pages that it has not written yet
                memory[group] += _HELD_BY_EACH if process.memory_info().rss >= _HELD_BY_EACH else 0
    most, held = max(processes.values(), default=0), max(memory.values(), default=0)
    return Look(_status(tool), tuple(_shared_namespaces(tool)), most, held)


def _groups(pid: int) -> str:
    """Return the control groups, which differ between the processes of two boxes."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text("latin-1")
    except OSError:
        return ""


def is_marked(process: psutil.Process) -> bool:
    """Return whether a package of these attacks started the process, whose `name` and `cmdline` are loaded."""
    return process.info["name"] in (HOLDER, SLEEPER) or SURVIVOR in (process.info["cmdline"] or ())


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("latin-1").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _shared_namespaces(pid: int) -> Iterator[str]:
    for kind, link in _NAMESPACES.items():
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/{link}") == os.readlink(f"/proc/self/ns/{link}"):
                yield kind


def _has_ended_within_walls(outcomes: Sequence[Outcome]) -> Verdict:
    # `look` judges the host's view; this function checks that the package ran and that its call ended normally.
    outcome = outcomes[-1]
    if outcome.status in (Status.MEMORY, Status.LIMIT, Status.TIMEOUT):
        return Verdict(held=True, how=ending_of(outcome))
    value = outcome.value
    if outcome.status is not Status.OK or not isinstance(value, dict) or not value.get("started"):
        return Verdict(held=False, how=f"inconclusive: {ending_of(outcome)}")
    return Verdict(held=True, how="no process of it ran on, and the receipt agrees with the kernel")


def _name(program: Program) -> str:
    return program.requires[0].replace("-", "_")


def _program(name: str, requirement: str, *, starts_with_python: bool) -> Program:
    module = requirement.replace("-", "_")
    start = "" if starts_with_python else f"import {module}\n"
    return Program(
        name,
        _TOOL.format(start=start, name=module),
        _has_ended_within_walls,
        requires=(requirement,),
        starts_with_python=starts_with_python,
    )


PACKAGES: Final = (
    Attack(
        "packages",
        "weaken later calls, leave processes, exceed memory and processes: by an import, by a .pth file",
        (
            _program("a package that is imported", "sandbox-attack-by-import", starts_with_python=False),
            _program("a package that starts with Python", "sandbox-attack-by-pth", starts_with_python=True),
        ),
    ),
)
