"""A tree of files from this machine's own packages: debootstrap, what was mended since, and the proof that it works.

Everything runs in mount and process namespaces of its own: whoever is killed leaves a folder, and neither a mount nor a
process. Package signatures are always checked.
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

_LONGEST_S: Final = 1800
_MOST_TOLD: Final = 1500
_APART: Final = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
_IN_TREE: Final = 'mount -t proc proc "$1/proc"; exec chroot "$@"'
_UPGRADE: Final = "apt-get -qq update && apt-get -qq --yes --no-install-recommends dist-upgrade"


def see_that_it_can() -> None:
    """Raise `BackendUnavailable` where nothing could be made, before anything is begun."""
    if os.geteuid() != 0:
        raise BackendUnavailable(
            "only root can make an image out of packages",
            remedy="run `sandbox image bootstrap` as root once; its image then serves every user of the daemon",
        )
    missing = [program for program in ("debootstrap", "unshare", "chroot") if shutil.which(program) is None]
    if missing:
        raise BackendUnavailable(
            f"images are made with {', '.join(missing)}, which is not installed", remedy="apt-get install debootstrap"
        )


def make_tree(recipe: Recipe, tree: Path, distribution: Distribution, *, on_stage: OnStage) -> None:
    """Fill the folder, which must not be there yet, with what the recipe installs; nothing is taken out of it."""
    on_stage(f"installing {distribution}: {', '.join(recipe.packages)}")
    _run(
        *(*_APART, "debootstrap", "--variant=minbase", "--force-check-gpg", f"--keyring={distribution.keyring}"),
        *(f"--include={','.join(recipe.packages)}", "--components=main"),
        *(distribution.codename, str(tree), distribution.base.uri),
    )
    if distribution.updates:
        on_stage("installing what was mended since")
        _upgrade(tree, distribution)


def prove(recipe: Recipe, tree: Path) -> None:
    """See that what is left after stripping still does what the recipe promises."""
    _run_in(tree, PROGRAM, "-I", "-S", "-B", "-c", recipe.proof)


def python_of(tree: Path) -> ImagePython:
    """Which one that tree has."""
    try:
        return read_python(_run_in(tree, PROGRAM, "-I", "-S", "-B", "-c", QUESTION))
    except ValueError as error:
        raise BackendUnavailable(f"the Python just installed does not say what it is: it {error}") from None


def debootstrap_version() -> str:
    """As it tells it itself: `debootstrap 1.0.128`."""
    return _run("debootstrap", "--version").strip()[:80]


def architecture() -> str:
    """This machine's, in Debian's words: `amd64`."""
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
    """How apt reaches its sources on this machine: proxies and certificates."""
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
            timeout=_LONGEST_S,
            umask=0o022,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(f"{_name(command)} was not done after {_LONGEST_S} s", remedy="try again") from None
    if answer.returncode:
        raise BackendUnavailable(
            f"{_name(command)} failed: {answer.stdout.strip()[-_MOST_TOLD:]}",
            remedy="see that apt-get can install packages on this machine",
        )
    return answer.stdout


def _name(command: tuple[str, ...]) -> str:
    words = command[len(_APART) :] if command[: len(_APART)] == _APART else command
    return "preparing the tree of files" if words[0] == "sh" else words[0]
