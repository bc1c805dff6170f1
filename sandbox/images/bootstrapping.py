"""A tree of files from this machine's own packages: debootstrap, updates, and a check that the tree works.

All programs run in mount and process namespaces of their own, so a killed build leaves a folder, and neither a mount
nor a process. apt always checks the signatures of packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sandbox.errors import BackendUnavailable
from sandbox.images.apt_sources import Distribution
from sandbox.images.image_python import PROGRAM, QUESTION, ImagePython, read_python
from sandbox.images.recipe import Recipe

OnStage = Callable[[str], None]

_MAX_S: Final = 1800
_MAX_QUOTED: Final = 1500
_APART: Final = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
_IN_TREE: Final = 'mount -t proc proc "$1/proc"; exec chroot "$@"'
_UPGRADE: Final = "apt-get -qq update && apt-get -qq --yes --no-install-recommends dist-upgrade"


def check_host() -> None:
    """Raise `BackendUnavailable` if this host cannot build images."""
    if os.geteuid() != 0:
        raise BackendUnavailable(
            "only root can build an image from packages",
            remedy="run `sandbox image bootstrap` as root once; its image then serves every user of the daemon",
        )
    missing = [program for program in ("debootstrap", "unshare", "chroot") if shutil.which(program) is None]
    if missing:
        raise BackendUnavailable(
            f"images cannot be built: {', '.join(missing)} is not installed", remedy="apt-get install debootstrap"
        )


def make_tree(recipe: Recipe, tree: Path, distribution: Distribution, *, on_stage: OnStage) -> None:
    """Install the recipe's packages into the folder, which must not exist yet."""
    on_stage(f"installing {distribution}: {', '.join(recipe.packages)}")
    _run(
        *(*_APART, "debootstrap", "--variant=minbase", "--force-check-gpg", f"--keyring={distribution.keyring}"),
        *(f"--include={','.join(recipe.packages)}", "--components=main"),
        *(distribution.codename, str(tree), distribution.base.uri),
    )
    if distribution.updates:
        on_stage("installing updates")
        _upgrade(tree, distribution)


def verify(recipe: Recipe, tree: Path) -> None:
    """Raise `BackendUnavailable` unless the stripped tree still passes the recipe's check."""
    _run_in(tree, PROGRAM, "-I", "-S", "-B", "-c", recipe.proof)


def python_of(tree: Path) -> ImagePython:
    """Return the Python of that tree."""
    try:
        return read_python(_run_in(tree, PROGRAM, "-I", "-S", "-B", "-c", QUESTION))
    except ValueError as error:
        raise BackendUnavailable(f"the installed Python gives no valid answer: it {error}") from None


def debootstrap_version() -> str:
    """Return the name and version, such as `debootstrap 1.0.128`."""
    return _run("debootstrap", "--version").strip()[:80]


def architecture() -> str:
    """Return this machine's architecture in Debian's words, such as `amd64`."""
    return _run("dpkg", "--print-architecture").strip()


def _upgrade(tree: Path, distribution: Distribution) -> None:
    keyring = tree / "etc/apt/bootstrap.gpg"
    shutil.copyfile(distribution.keyring, keyring)
    archives = [distribution.base, *distribution.updates]
    lines = [archive.line(keyring=f"/{keyring.relative_to(tree)}") for archive in archives]
    (tree / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    (tree / "etc/apt/apt.conf.d/99bootstrap").write_text(_connection_settings())
    _run_in(tree, "/bin/sh", "-ec", _UPGRADE)


def _connection_settings() -> str:
    """Return apt's settings on this machine for proxies and certificates."""
    lines = _run("apt-config", "dump").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith(("Acquire::http", "Acquire::https")))


def _run_in(tree: Path, *command: str) -> str:
    return _run(*_APART, "sh", "-ec", _IN_TREE, "sh", str(tree), *command)


def _run(*command: str) -> str:
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    proxies = {name: value for name, value in os.environ.items() if name.lower() in ("http_proxy", "https_proxy")}
    try:
        answer = subprocess.run(
            command,
            env={**variables, **proxies},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_MAX_S,
            umask=0o022,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(f"{_name(command)} took longer than {_MAX_S} s", remedy="try again") from None
    if answer.returncode:
        raise BackendUnavailable(
            f"{_name(command)} failed: {answer.stdout.strip()[-_MAX_QUOTED:]}",
            remedy="check that apt-get can install packages on this machine",
        )
    return answer.stdout


def _name(command: tuple[str, ...]) -> str:
    words = command[len(_APART) :] if command[: len(_APART)] == _APART else command
    return "preparing the tree of files" if words[0] == "sh" else words[0]
