"""The host's interpreters, and which of them a tool runs on.

A tool that does not say, or says what the engine's own interpreter satisfies, gets that one, and nothing is looked for.
Otherwise it is the newest that fits of all CPythons from 3.8 on that are found on this host; one that is not released
yet, or that is built in a special way, only when no other fits. An interpreter for another processor or C library than
the engine's is not taken, since which wheels fit is decided here.

The tag of an interpreter says which wheels fit it: two with equal tags can use the same packages. The digest says
exactly which one it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.environments.interpreters.facts import facts
from sandbox.environments.interpreters.search import Facts, Mute, ask, candidates, why_not_to_run
from sandbox.errors import EnvironmentUnavailable, RequirementRefused

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

OLDEST: Final = (3, 8)
_FORMAT: Final = 1
_ASKED_AT_ONCE: Final = 8
_MAX_LISTED: Final = 40
_MAX_SPECIFIER: Final = 200
_CPYTHON: Final = re.compile(r"cp(\d)(\d+)([a-z]*)")


@dataclass(frozen=True, slots=True)
class HostInterpreter:
    """A base interpreter of this host."""

    python: Path
    """The real path of its program."""
    version: str
    tag: str
    """The implementation, version, flags and platform, such as `cp311-linux_x86_64-glibc2.36`."""
    folders: tuple[Path, ...]
    """Host folders it reads: its prefix and its standard library."""
    hidden: tuple[Path, ...]
    """Folders below those that belong to the host's own packages."""
    digest: str

    @property
    def wheel_tags(self) -> tuple[str, ...]:
        """The tags of the wheels that fit it, best first."""
        return _wheel_tags(self.tag.partition("-")[0])

    @property
    def markers(self) -> dict[str, str]:
        """The values that markers of requirements have on it."""
        from packaging.markers import default_environment

        changed = {
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "implementation_version": self.version,
            "python_full_version": self.version,
            "python_version": ".".join(self.version.split(".")[:2]),
        }
        return {key: str(value) for key, value in default_environment().items()} | changed


@dataclass(frozen=True, slots=True)
class _Survey:
    """The interpreters of this host, newest first, and those passed over with the reason."""

    found: tuple[HostInterpreter, ...]
    passed_over: tuple[str, ...]


@cache
def own_interpreter() -> HostInterpreter:
    """The base interpreter that the engine itself runs on; nothing is run to learn about it."""
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    return _interpreter(python, _own_facts())


def find_interpreters() -> tuple[HostInterpreter, ...]:
    """All that a tool could run on here, newest first. Takes a moment when first asked."""
    return _survey().found


def pick_interpreter(requires_python: str | None) -> HostInterpreter:
    """The one for a tool; raises `EnvironmentUnavailable` with what was found when none fits."""
    wanted = _specifiers(requires_python or "")
    if best_of((own_interpreter(),), wanted):
        return own_interpreter()
    survey = _survey()
    best = best_of(survey.found, wanted)
    if best is None:
        raise _nothing_fits(wanted, survey)
    return best


def interpreter_tagged(
    tag: str, requires_python: str | None = None, *, release: str | None = None
) -> HostInterpreter | None:
    """Return an interpreter with that tag and version, preferably of that release."""
    wanted, own = _specifiers(requires_python or ""), own_interpreter()
    fits = own.tag == tag and best_of((own,), wanted) is not None
    if fits and release in (None, own.version):
        return own
    tagged = [each for each in find_interpreters() if each.tag == tag]
    exact = best_of((each for each in tagged if each.version == release), wanted)
    return exact or (own if fits else best_of(tagged, wanted))


def best_of(interpreters: Iterable[HostInterpreter], wanted: SpecifierSet) -> HostInterpreter | None:
    """The newest that fits, ordinary releases before all others."""
    fitting = [each for each in interpreters if wanted.contains(each.version, prereleases=True)]
    return max(fitting, key=_merit, default=None)


def _merit(interpreter: HostInterpreter) -> tuple[object, ...]:
    from packaging.version import Version

    version = Version(interpreter.version)
    is_ordinary = not version.is_prerelease and interpreter.tag.partition("-")[0][-1].isdigit()
    return is_ordinary, version, interpreter.python == own_interpreter().python, str(interpreter.python)


def _specifiers(requires_python: str) -> SpecifierSet:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    shown = ascii(requires_python[:80])
    try:
        if len(requires_python) > _MAX_SPECIFIER:
            raise InvalidSpecifier
        return SpecifierSet(requires_python)
    except InvalidSpecifier:
        remedy = 'write it as ">=3.9" or ">=3.9,<3.13"'
        raise RequirementRefused(f"requires-python {shown} says no versions of Python", remedy=remedy) from None


def _nothing_fits(wanted: SpecifierSet, survey: _Survey) -> EnvironmentUnavailable:
    found = [f"{each.version} ({each.python})" for each in survey.found]
    lines = [f"no interpreter on this host fits requires-python '{wanted}'; there are:"]
    lines += [*found, *survey.passed_over][:_MAX_LISTED]
    if len(found) + len(survey.passed_over) > _MAX_LISTED:
        lines.append("…")
    remedy = "install a Python that fits, or have the tool require one of these"
    return EnvironmentUnavailable("\n  ".join(lines), remedy=remedy)


def _survey() -> _Survey:
    own = own_interpreter()
    others = [python for python in candidates() if python != own.python]
    with ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="interpreters") as pool:
        answers = list(pool.map(_taken_or_reason, others))
    found = [own, *(each for each in answers if isinstance(each, HostInterpreter))]
    passed_over = (f"{python}: {why}" for python, why in zip(others, answers, strict=True) if isinstance(why, str))
    return _Survey(tuple(sorted(found, key=_merit, reverse=True)), tuple(passed_over))


def _taken_or_reason(python: Path) -> HostInterpreter | str:
    if reason := why_not_to_run(python):
        return reason
    try:
        found = ask(python)
        return _unusable(found) or _interpreter(python, found)
    except (Mute, OSError) as error:
        return str(error)


def _unusable(found: Facts) -> str | None:
    own = _own_facts()
    if found.implementation != "cpython":
        return f"is {found.implementation}, not CPython"
    if tuple(map(int, found.version.split(".")[:2])) < OLDEST:
        return f"is {found.version}, which is too old"
    if (found.machine, found.bits, found.libc) != (own.machine, own.bits, own.libc):
        return f"is for {found.machine}, {found.bits} bits, {found.libc}: not for what the engine runs on"
    return None


@cache
def _own_facts() -> Facts:
    return Facts.model_validate_json(json.dumps(facts()))


def _interpreter(python: Path, found: Facts) -> HostInterpreter:
    file = python.stat()
    platform = found.platform.replace("-", "_")
    tag = "-".join(filter(None, (_short_name(found), platform, found.libc)))
    which = [_FORMAT, found.implementation, found.build, tag, str(python), file.st_size, file.st_mtime_ns]
    return HostInterpreter(
        python=python,
        version=found.version,
        tag=tag,
        folders=tuple(map(Path, found.folders)),
        hidden=tuple(map(Path, found.hidden)),
        digest=hashlib.sha256(json.dumps(which).encode()).hexdigest(),
    )


def _short_name(found: Facts) -> str:
    major, minor, _ = found.version.split(".", 2)
    name = "cp" if found.implementation == "cpython" else found.implementation
    return f"{name}{major}{minor}{found.flags}"


@cache
def _wheel_tags(name: str) -> tuple[str, ...]:
    """For this platform; a debug build takes the wheels of the ordinary one too."""
    from packaging.tags import compatible_tags, cpython_tags, platform_tags

    match = _CPYTHON.fullmatch(name)
    assert match, name
    major, minor, flags = match.groups()
    version, platforms = (int(major), int(minor)), list(platform_tags())
    abis = list(dict.fromkeys((name, name.replace("d", ""))))
    tags = [
        *cpython_tags(version, abis, platforms),
        *compatible_tags(version, name.removesuffix(flags), platforms),
    ]
    return tuple(dict.fromkeys(map(str, tags)))
