"""System packages, which only root on a Debian machine installs, and only when the front door allows it.

A run may meet a machine on which another program installs packages, or on which an earlier run was killed while it did.
So `install` waits for a lock that another process holds, finishes what was interrupted, and asks a mirror again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError, earlier_runs

PACKAGES: Final[Mapping[str, str]] = {
    "catatonit": "catatonit",
    "crun": "crun",
    "curl": "curl",
    "debootstrap": "debootstrap",
    "dockerd": "docker.io",
    "gcc": "gcc",
    "git": "git",
    "ip": "iproute2",
    "openssl": "openssl",
    "podman": "podman",
    "ps": "procps",
    "runsc": "runsc",
}
"""The programs that the tests start, and the package of each."""
ALLOWED: Final = "SANDBOX_TESTS_INSTALL"
_SYSTEM_FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_HIDDEN_FOLDERS: Final = ("/usr/libexec/podman", "/usr/lib/podman")
_RELEASE: Final = Path("/etc/os-release")
_CAP_SYS_ADMIN: Final = 1 << 21
_LOCK: Final = "/var/lib/dpkg"  # the folder itself, so that no file is left; dpkg locks files in it
_LOCK_SECONDS: Final = 900.0
_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 5.0
_LOCKED: Final = ("could not get lock", "unable to lock", "unable to acquire the dpkg", "is another process using it")
_OPTIONS: Final = (
    *("-qq", "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=60", "-o", "DPkg::Lock::Timeout=60"),
    *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
)
_QUIET: Final = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "LC_ALL": "C",  # the messages of a held lock are looked for below
}
_SERVICES: Final = Path("/usr/sbin/policy-rc.d")
_NO_SERVICES: Final = "#!/bin/sh\n# Made by the tests of sandbox-engine while they install packages.\nexit 101\n"


def use_system_folders() -> None:
    """Put the folders of system programs on PATH, which root may lack after `su`, and a service altogether."""
    found = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    os.environ["PATH"] = os.pathsep.join([*found, *(folder for folder in _SYSTEM_FOLDERS if folder not in found)])


def allow(*, is_allowed: bool) -> None:
    """Let this process and what it starts install packages, or not, whatever the environment said before."""
    os.environ[ALLOWED] = "yes" if is_allowed else "no"


def can_install() -> bool:
    """Return whether this is root of a Debian machine; root of a container without privileges is not."""
    return sys.platform == "linux" and os.geteuid() == 0 and _is_privileged() and _is_debian()


def may_install() -> bool:
    """Return whether the front door allows to install packages here."""
    return os.environ.get(ALLOWED) == "yes" and can_install()


def _is_privileged() -> bool:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status.get("CapEff", "0"), 16) & _CAP_SYS_ADMIN)


def _is_debian() -> bool:
    with suppress(OSError):
        release = dict(line.split("=", 1) for line in _RELEASE.read_text().splitlines() if "=" in line)
        names = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".replace('"', "").split()
        return "debian" in names and shutil.which("apt-get") is not None
    return False


def missing(*programs: str) -> list[str]:
    """Return the packages of those programs that this machine lacks."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_HIDDEN_FOLDERS])
    return sorted({PACKAGES[program] for program in programs if shutil.which(program, path=places) is None})


def require(*programs: str) -> None:
    """Install the programs that this machine lacks, or raise `ProvisionError` that says what to do instead."""
    if packages := missing(*programs):
        install(*packages, instead=f"as root: apt-get install {' '.join(packages)}")


def install(*packages: str, instead: str) -> None:
    """Install the packages, or raise `ProvisionError` that says what to do instead."""
    if not may_install():
        raise ProvisionError(f"Missing on this machine: {', '.join(packages)}; {instead}.")
    print(f"Installing Debian packages, once: {' '.join(packages)}", file=sys.stderr, flush=True)
    with _alone(), _services_stay_off():
        with suppress(ProvisionError):  # the lists at hand may do; if not, the second command says what is wrong
            _run("apt-get", *_OPTIONS, "update")
        _run("apt-get", *_OPTIONS, "install", "--yes", "--no-install-recommends", *packages)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process of all runs on this machine install at a time."""
    turn = os.open(_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
    finally:
        os.close(turn)


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """Keep packages from starting their services: a daemon of the system would outlive the tests."""
    if _SERVICES.exists() and _SERVICES.read_text() != _NO_SERVICES:
        yield  # the machine has a rule of its own
        return
    _SERVICES.write_text(_NO_SERVICES)
    _SERVICES.chmod(0o755)
    try:
        yield
    finally:
        _SERVICES.unlink(missing_ok=True)


def _run(*command: str) -> None:
    """Run until the command succeeds. A held lock costs no attempt."""
    deadline, attempts = time.monotonic() + _LOCK_SECONDS, 0
    while said := _failure_of(*command):
        is_locked = any(words in said.lower() for words in _LOCKED)
        attempts += not is_locked
        if attempts == _ATTEMPTS or time.monotonic() > deadline:
            raise ProvisionError(f"{' '.join(command)} failed: {said[-2000:]}")
        if not is_locked:
            _failure_of("dpkg", "--configure", "-a")  # an earlier run may have been killed within
        time.sleep(_PAUSE_SECONDS)


def _failure_of(*command: str) -> str:
    """Run once and return what the command said if it failed, and nothing if it did not."""
    # Without the mark of the run: a later run must not kill dpkg in the middle, but wait for its lock.
    environment = {name: value for name, value in os.environ.items() if name != earlier_runs.MARK}
    # The output goes to a file: a pipe would be waited for as long as any process that a package started holds it.
    with tempfile.TemporaryFile() as output:
        answer = subprocess.run(
            command,
            env={**environment, **_QUIET},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
        output.seek(0)
        said = output.read().decode(errors="replace").strip()
    return (said or f"exit code {answer.returncode}") if answer.returncode else ""
